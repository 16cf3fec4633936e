"""Public data sets: where each is found, who made it, under which licence, and how large it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from crowdppl.sources import formats as formats

Read = Callable[[formats.Files], formats.Contents]


@dataclass(frozen=True)
class Source:
    """A public data set at a fixed commit of a repository on GitHub.

    Attributes:
        name: by which it is loaded.
        about: what was labelled.
        citation: who is to be cited.
        licence: as stated at the source; "none stated" where it states none.
        repository: owner and name.
        commit: 40 hexadecimal digits.
        files: path in the repository of each file, by what it holds.
        read: what makes sense of them.
        classes: each label as the files spell it, and what it is called here, in the order of the classes.
        items, annotators, labels, truths: how many items have labels, and so on.
        kind: "nominal" or "ordinal".
        sha256: hash of files by their path, as far as crowdppl knows them.
    """

    name: str
    about: str
    citation: str
    licence: str
    repository: str
    commit: str
    files: Mapping[str, str]
    read: Read
    classes: Mapping[str, Hashable]
    items: int
    annotators: int
    labels: int
    truths: int
    kind: str = "nominal"
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where a browser shows it."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"


def numbers(n: int) -> dict[str, Hashable]:
    """Classes that are numbers from 1."""
    return {str(k): k for k in range(1, n + 1)}


NONE = "none stated"
SPECTRAL = ("zhangyuc/SpectralMethodsMeetEM", "6204f5fcab1766cb1b2c40fc1bff53b1613ddc6c")
SURVEY = ("zhydhkcws/crowd_truth_infer", "8d216471071f09b9e474ee19f8d692447f982f88")
MENA = ("fmenat/PyLearningCrowds", "0edf617d0357a43b48dc53f10f4181ec0163d4db")
ZHENG = "Zheng, Li, Li, Shan & Cheng (2017), Truth inference in crowdsourcing: is the problem solved? PVLDB 10(5)"
ZHOU = "Zhou, Basu, Mao & Platt (2012), Learning from the wisdom of crowds by minimax entropy, NIPS"
RODRIGUES = (
    "Rodrigues, Pereira & Ribeiro (2013), Learning from multiple annotators: distinguishing good from random "
    "labelers, Pattern Recognition Letters 34(12)"
)
LANDSCAPES = ("highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry")
GENRES = ("blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock")

SOURCES = {
    source.name: source
    for source in (
        Source(
            "bluebirds",
            "photographs: which of two birds is it?",
            "Welinder, Branson, Belongie & Perona (2010), The multidimensional wisdom of crowds, NIPS",
            "BSD style (LICENSE.TXT of the repository, P. Welinder)",
            "welinder/cubam",
            "fe5ba700f1adbb489c69af311558d64370d73d36",
            {"labels": "demo/bluebirds/labels.yaml", "truth": "demo/bluebirds/gt.yaml"},
            formats.mapped,
            {"false": "Blue Grosbeak", "true": "Indigo Bunting"},
            *(108, 39, 4212, 108),
        ),
        Source(
            "cf_amt",
            "tweets: what do they say of the weather? Seconds that a label took stand beside it",
            "Venanzi, Teacy, Rogers & Jennings (2015), Weather Sentiment - Amazon Mechanical Turk dataset, "
            "University of Southampton",
            "Apache-2.0 (of the repository; none stated for the data)",
            "orchidproject/active-crowd-toolkit",
            "2c0c194e85ca126545bd830d811ec39151bdd448",
            {"labels": "Data/CF_amt.csv"},
            formats.timed,
            dict(zip("01234", ("negative", "neutral", "positive", "not of weather", "can't tell"), strict=True)),
            *(300, 110, 6030, 300),
        ),
        Source(
            "dogs",
            "photographs: which of four breeds of dogs is it?",
            ZHOU,
            NONE,
            *SPECTRAL,
            {"labels": "src/dog_crowd.txt", "truth": "src/dog_truth.txt"},
            formats.numbered,
            numbers(4),
            *(807, 109, 8070, 807),
        ),
        Source(
            "face",
            "photographs of faces: what do they feel?",
            f"Mozafari et al. (2014), Scaling up crowd-sourcing to very large datasets, PVLDB; {ZHENG}",
            NONE,
            *SURVEY,
            {
                "labels": "datasets/s4_Face Sentiment Identification/answer.csv",
                "truth": "datasets/s4_Face Sentiment Identification/truth.csv",
            },
            formats.headed,
            {"0": "neutral", "1": "happy", "2": "sad", "3": "angry"},
            *(584, 27, 5242, 584),
        ),
        Source(
            "labelme",
            "photographs of landscapes: what is there? 512 features, and images that nobody labelled",
            "Rodrigues & Pereira (2018), Deep learning from crowds, AAAI; Russell et al. (2008), LabelMe, IJCV 77",
            NONE,
            *MENA,
            {"labels": "data/LabelMe/answers.txt"}
            | {part: f"data/LabelMe/LabelMe_Z_{part}.txt" for part in ("train", "valid", "test")}
            | {
                f"{part}_features": f"data/LabelMe/LabelMe_VGG_avg_{part}.npy"
                for part in ("train", "valid", "test")
            },
            formats.gridded,
            {str(k): name for k, name in enumerate(LANDSCAPES)},
            *(1000, 59, 2547, 2688),
        ),
        Source(
            "music",
            "pieces of music: of which genre? 124 features, and pieces that nobody labelled",
            f"{RODRIGUES}; Tzanetakis & Cook (2002), GTZAN",
            NONE,
            "shahanaibrahimosu/end-to-end-crowdsourcing",
            "7653680c475ba8faa5d4a7b104b42a2a5204cef9",
            {
                "labels": "data/Music/music_genre_mturk.csv",
                "train": "data/Music/music_genre_gold.csv",
                "test": "data/Music/music_genre_test.csv",
            },
            formats.featured,
            {name: name for name in GENRES},
            *(700, 44, 2945, 1000),
        ),
        Source(
            "music_sim_pairs",
            "pieces of music: is A or B more like a third? Seconds that a label took stand beside it",
            "Urbano, Morato, Marrero & Martín (2010), Crowdsourcing preference judgments for evaluation of music "
            "similarity tasks, SIGIR workshop on crowdsourcing for search evaluation",
            "CC BY-SA 4.0",
            "julian-urbano/sigir2010-crowdsourcing",
            "ac8f16f22ccdda027571e73f0b0e17e200134cf4",
            {"labels": "data/judgments.csv"},
            formats.compared,
            {"a": "A", "b": "B", "s": "same"},
            *(281, 79, 2805, 0),
        ),
        Source(
            "possent",
            "tweets on companies: are they positive?",
            ZHENG,
            "MIT (of the repository; none stated for the data)",
            "yuan-li/truth-inference-at-scale",
            "621789b2d57324d3559dc973b2613d2296d73f55",
            {
                "labels": "data/crowd_truth_inference/d_sentiment/label.csv",
                "truth": "data/crowd_truth_inference/d_sentiment/truth.csv",
            },
            formats.headed,
            {"0": "no", "1": "yes"},
            *(1000, 85, 20000, 1000),
        ),
        Source(
            "product",
            "pairs of product descriptions: is it the same product?",
            f"Wang, Kraska, Franklin & Feng (2012), CrowdER, PVLDB; {ZHENG}",
            NONE,
            *SURVEY,
            {"labels": "datasets/d_jn-product/answer.csv", "truth": "datasets/d_jn-product/truth.csv"},
            formats.headed,
            {"0": "different", "1": "same"},
            *(8315, 176, 24945, 8315),
        ),
        Source(
            "rte",
            "pairs of sentences: does the first entail the second?",
            "Snow, O'Connor, Jurafsky & Ng (2008), Cheap and fast - but is it good? EMNLP",
            "MIT (of the repository; none stated for the data)",
            "edwinrobots/bayesian_combination_tutorial2",
            "f98448e2e9a941463aa92f418eefd1f43bd5a637",
            {"labels": "all_collected_data/rte.standardized.tsv"},
            formats.standardized,
            {"0": "not entailed", "1": "entailed"},
            *(800, 164, 8000, 800),
        ),
        Source(
            "sentiment_polarity",
            "sentences of film reviews: is it praise?",
            f"{RODRIGUES}; Pang & Lee (2005), Seeing stars, ACL",
            NONE,
            *MENA,
            {"labels": "data/Sentiment/answers.txt", "train": "data/Sentiment/Sentiment_Z_train.txt"},
            formats.gridded,
            {"0": "negative", "1": "positive"},
            *(4999, 203, 27746, 4999),
        ),
        Source(
            "trec2010_binary",
            "pairs of a query and a document: is it relevant?",
            "Buckley, Lease & Smucker (2010), Overview of the TREC 2010 relevance feedback track",
            NONE,
            *SPECTRAL,
            {"labels": "src/trec_crowd.txt", "truth": "src/trec_truth.txt"},
            formats.numbered,
            numbers(2),
            *(19033, 762, 88385, 2275),
        ),
        Source(
            "web",
            "pairs of a query and a page of the web: how relevant, from 1 to 5?",
            ZHOU,
            NONE,
            *SPECTRAL,
            {"labels": "src/web_crowd.txt", "truth": "src/web_truth.txt"},
            formats.numbered,
            numbers(5),
            *(2665, 177, 15567, 2653),
            kind="ordinal",
        ),
    )
}
"""Public data sets by name."""
