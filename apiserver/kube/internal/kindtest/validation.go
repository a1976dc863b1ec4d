package kindtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// validation reads testdata/validation. A file, named after a plural, begins with a valid object. Each
// case after it is a line "# title", a merge patch, and lines "! message": the errors of the patched
// object, in any order. "# update: title" makes the case a change of the valid object, "# status:
// title" one through its status.
func validation(t *testing.T, resources []apiserver.Resource) {
	for file, data := range read(t, "validation") {
		cases := strings.Split("\n"+data, "\n# ")
		base := cases[0]
		t.Run(file, func(t *testing.T) {
			r := find(t, resources, strings.TrimSuffix(file, ".yaml"))
			expectErrors(t, check(t, r, "", base, "{}"), nil)
			for _, c := range cases[1:] {
				title, body, _ := strings.Cut(c, "\n")
				t.Run(title, func(t *testing.T) {
					patch, want := splitCase(body)
					kind, _, _ := strings.Cut(title, ": ")
					expectErrors(t, check(t, r, kind, base, patch), want)
				})
			}
		})
	}
}

func splitCase(body string) (patch string, want []string) {
	var lines []string
	for line := range strings.Lines(body) {
		if message, ok := strings.CutPrefix(line, "! "); ok {
			want = append(want, strings.TrimSpace(message))
		} else {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), want
}

// check validates base with patch applied, as a server would.
func check(t *testing.T, r apiserver.Resource, kind, base, patch string) field.ErrorList {
	t.Helper()
	obj, old := patched(t, r.New, base, patch), patched(t, r.New, base, "{}")
	s := r.Strategy
	if kind == "status" {
		s = r.Subresources[0].(apiserver.Status).Strategy
	}
	if r.Strategy.Default != nil {
		r.Strategy.Default(obj)
		r.Strategy.Default(old)
	}
	before := old.DeepCopyObject()
	var errs field.ErrorList
	switch kind {
	case "update", "status":
		if s.PrepareForUpdate != nil {
			s.PrepareForUpdate(t.Context(), obj, old)
		}
		errs = s.ValidateUpdate(t.Context(), obj, old)
	default:
		errs = s.Validate(t.Context(), obj)
	}
	ExpectYAML(t, old, before)
	return errs
}

func patched(t *testing.T, empty func() runtime.Object, base, patch string) runtime.Object {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	p, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := jsonpatch.MergePatch(b, p)
	if err != nil {
		t.Fatal(err)
	}
	return Decode(t, empty, string(merged))
}

func expectErrors(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var have []string
	for _, err := range errs {
		have = append(have, strings.ReplaceAll(err.Error(), "\n", `\n`))
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("have:\n  %s\nwant:\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}
