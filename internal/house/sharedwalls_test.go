package house

// sharedWalls holds the walls of the internal packages that several rooms share.
var sharedWalls = []wall{
	{packages: "internal/usage", closed: true, may: []allowance{
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "internal/volumeclaim", closed: true, may: []allowance{
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "internal/recent", closed: true},
	{packages: "internal/reference", closed: true, may: []allowance{
		{"github.com/spf13", "it draws tables of commands and flags"},
	}},
	{packages: "internal/budget", closed: true},
	{packages: "internal/pattern", closed: true},
	{packages: "internal/hookclient", closed: true},
	{packages: "internal/certfile", closed: true, may: []allowance{{"internal/lastvalid", "files that change are followed in one way"}}},
	{packages: "internal/lastvalid", closed: true},
	{packages: "internal/wholefile", closed: true},
	{packages: "internal/podreference", closed: true, may: []allowance{{"k8s.io/api/core", kubeTypes}}},
	{packages: "internal/randomcluster", closed: true, may: []allowance{
		{"k8s.io/api/apps", kubeTypes}, {"k8s.io/api/core", kubeTypes}, {"k8s.io/api/policy", kubeTypes}, {"k8s.io/api/storage", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "internal/cborjson", closed: true, may: []allowance{{"k8s.io/apimachinery", "what CBOR means is up to its serializer"}}},
	{packages: "internal/yamljson", closed: true, may: []allowance{{"sigs.k8s.io/yaml", "its parser"}}},
	{packages: "internal/upgraded", closed: true},
	{packages: "internal/jsonscan", closed: true},
	{packages: "internal/jsonpatch", closed: true, may: []allowance{{"internal/jsonscan", "documents are read once, in one way"}}},
	{packages: "internal/bodycost", closed: true, may: []allowance{
		{"internal/jsonscan", "texts are read once, in one way"},
		{"google.golang.org/protobuf/encoding/protowire", "the wire format of protobuf"},
	}},
	{packages: "internal/mergeschema", closed: true, may: []allowance{
		{"k8s.io/apimachinery/pkg/runtime/schema", "kinds have names"},
		{"sigs.k8s.io/structured-merge-diff/v6", "it merges"},
	}},
	{packages: "internal/kubecel/mutation", closed: true, may: []allowance{
		{"github.com/google/cel-go", "it gives the language the types of changes"},
	}},
	{packages: "internal/kubecel/openapi", closed: true, may: []allowance{
		{"github.com/google/cel-go", "it gives the language the types of documents"},
		{"internal/kubecel/typed", "fields have one name in expressions"},
		{"k8s.io/apimachinery/pkg/runtime/schema", "kinds are found by name"},
	}},
	{packages: "internal/kubecel/typed", closed: true, may: []allowance{
		{"github.com/google/cel-go", "it gives the language the types of schemas"},
		{"internal/structural", "schemas are compiled in one place"},
		{"k8s.io/apimachinery/pkg/api/equality", "what has no schema is compared as it is"},
		{"k8s.io/kube-openapi/pkg/validation/strfmt", "dates and durations are read as they are validated"},
	}},
	{packages: "internal/kubecel/authorizer", closed: true, may: []allowance{
		{"internal/kubecel", celAlike},
		{"github.com/google/cel-go", "its functions are of the language"},
		{"authn/user", sharedNoun},
		{"authz", "expressions ask the server's own authorizer"},
		{"internal/requirement", "selectors are read for authorization in one way"},
		{"k8s.io/apimachinery/pkg/util/validation", "names are Kubernetes's"},
	}},
	{packages: "internal/kubecel", closed: true, may: []allowance{
		{"internal/bodycost", "quantities are bounded in one way"},
		{"internal/pattern", "regular expressions are charged in one way"},
		{"github.com/google/cel-go", "the language"},
		{"k8s.io/apimachinery", "quantities, and what names look like"},
	}},
	{packages: "internal/jsonpath", closed: true},
	{packages: "internal/structural", closed: true, may: []allowance{
		{"internal/pattern", "regular expressions are charged in one way"},
		{"kinds/apiextensions", "schemas are written in its types"},
		{"k8s.io/apimachinery", machinery},
		{"k8s.io/kube-openapi", "errors of values are worded by kube-apiserver's own validation"},
		{"sigs.k8s.io/json", "metadata is read strictly"},
	}},
	{packages: "internal/invalid", closed: true, may: []allowance{{"k8s.io/apimachinery", "errors of fields and their status are Kubernetes's"}}},
	{packages: "internal/selector", closed: true, may: []allowance{{"k8s.io/apimachinery", "selectors are Kubernetes's"}}},
	{packages: "internal/requirement", closed: true, may: []allowance{
		{"authz", "it makes what authorization knows"},
		{"k8s.io/apimachinery", "selectors are Kubernetes's"},
	}},
}
