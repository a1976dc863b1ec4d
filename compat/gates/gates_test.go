// Package gates compares the page of feature gates with the gates of the stock components.
package gates

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "k8s.io/apiextensions-apiserver/pkg/features" // registers its gates
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	_ "k8s.io/controller-manager/pkg/features/register" // registers its gates
	_ "k8s.io/kubernetes/pkg/features"                  // registers its gates, and those of client-go and of the pages of components
)

const (
	root = "../.."
	page = root + "/docs/reference/feature-gates.md"
)

// row is one line of the page.
type row struct {
	gate, components, state string
	locked                  bool // in the table of gates that are locked
}

var (
	heading = regexp.MustCompile(`^## (.*)`)
	line    = regexp.MustCompile(`^\| (\w+) \| ([^|]+) \| (.*) \|$`)
	// A state names tests as `TestA` and `TestB` of `folder`, a subtest of a test before its name, and scripts by their path.
	folder = regexp.MustCompile("((?:`[^`]+` (?:and|of) )+)`([a-z][a-z/0-9]*)`")
	script = regexp.MustCompile("`([^`]+\\.txtar)`")
	quoted = regexp.MustCompile("`([^`]+)`")
	entry  = regexp.MustCompile(`^(Test|Example)(\w*)$`)
)

func parse(text string) (rows []row) {
	locked := false
	for text := range strings.Lines(text) {
		text = strings.TrimSuffix(text, "\n")
		if m := heading.FindStringSubmatch(text); m != nil {
			locked = m[1] == "Gates that are locked"
		}
		if m := line.FindStringSubmatch(text); m != nil && m[1] != "gate" {
			rows = append(rows, row{m[1], m[2], m[3], locked})
		}
	}
	return rows
}

// stock returns the gates of kube-apiserver, kube-controller-manager, kube-scheduler, the kubelet and kube-proxy that are on by
// default.
func stock(t *testing.T) map[string]featuregate.FeatureSpec {
	t.Helper()
	// Each program adds these as it starts.
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	for _, add := range []func(featuregate.MutableVersionedFeatureGate) error{logsapi.AddFeatureGates, metricsfeatures.AddFeatureGates} {
		if err := add(gates); err != nil {
			t.Fatalf("AddFeatureGates: %v, want no error", err)
		}
	}
	on := map[string]featuregate.FeatureSpec{}
	for name, spec := range gates.GetAll() {
		if spec.Default {
			on[string(name)] = spec
		}
	}
	return on
}

// problems compares rows with gates, and the tests that they name with those below dir.
func problems(rows []row, gates map[string]featuregate.FeatureSpec, dir string) (all []string) {
	failf := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, r := range rows {
		spec, on := gates[r.gate]
		if !on {
			failf("%s: has a row and is not on by default", r.gate)
		}
		if seen[r.gate] {
			failf("%s: has two rows", r.gate)
		}
		seen[r.gate] = true
		if on && spec.LockToDefault != r.locked {
			failf("%s: locked %v, want its row in the other table", r.gate, spec.LockToDefault)
		}
		state, reason, _ := strings.Cut(r.state, ": ")
		if !slices.Contains([]string{"built", "part", "not built", "internal"}, state) || strings.TrimSpace(reason) == "" {
			failf("%s: the state %q is none of built, part, not built and internal with a test or a reason", r.gate, r.state)
		}
		found, missing := evidence(reason, dir)
		for _, m := range missing {
			failf("%s: %s", r.gate, m)
		}
		if state == "built" && found == 0 {
			failf("%s: is built and names no test that exists", r.gate)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if !seen[name] {
			failf("%s: is on by default (%s) and has no row", name, gates[name].PreRelease)
		}
	}
	return all
}

// evidence counts the tests in text that exist, and says which do not.
func evidence(text, dir string) (found int, missing []string) {
	claimed := map[string]bool{}
	for _, m := range folder.FindAllStringSubmatch(text, -1) {
		source := sources(filepath.Join(dir, m[2]))
		for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
			claimed[name[1]] = true
			switch {
			case entry.MatchString(name[1]) && regexp.MustCompile(`(?m)^func `+name[1]+`\(`).MatchString(source):
				found++
			case !entry.MatchString(name[1]) && strings.Contains(source, `"`+name[1]+`"`): // a subtest
			default:
				missing = append(missing, fmt.Sprintf("%s has no test %s", m[2], name[1]))
			}
		}
	}
	for _, m := range script.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			missing = append(missing, err.Error())
			continue
		}
		found++
	}
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if entry.MatchString(m[1]) && !claimed[m[1]] {
			missing = append(missing, "no folder stands with the test "+m[1])
		}
	}
	return found, missing
}

// sources returns the text of the tests in a folder, nothing if there are none.
func sources(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return ""
	}
	var all strings.Builder
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			all.Write(text)
		}
	}
	return all.String()
}

// TestPage checks that the page has each gate that is on by default, and no other, with a state, and that the tests it names
// exist.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	version := "v" + utilfeature.DefaultMutableFeatureGate.EmulationVersion().String()
	if !strings.Contains(string(text), "Kubernetes "+version+" ") {
		t.Errorf("the page does not say that its gates are those of Kubernetes %s", version)
	}
	gates := stock(t)
	if len(gates) < 100 {
		t.Fatalf("%d gates are on by default, want at least 100", len(gates))
	}
	rows := parse(string(text))
	if !slices.IsSortedFunc(rows, func(a, b row) int {
		if a.locked != b.locked {
			return map[bool]int{false: -1, true: 1}[a.locked]
		}
		return strings.Compare(strings.ToLower(a.gate), strings.ToLower(b.gate))
	}) {
		t.Errorf("the rows of a table are not in the order of their gates")
	}
	if all := problems(rows, gates, root); len(all) > 0 {
		t.Errorf("the page has %d problems, want none:\n%s", len(all), strings.Join(all, "\n"))
	}
}

// TestProblems checks that each kind of mistake on a page is found.
func TestProblems(t *testing.T) {
	gates := map[string]featuregate.FeatureSpec{
		"Open": {Default: true, PreRelease: featuregate.Beta}, "Locked": {Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	}
	const shown = "built: `TestProblems` of `compat/gates`"
	pageOf := func(open, locked string) string {
		return "| gate | components | state |\n|---|---|---|\n" + open + "\n## Gates that are locked\n\n" + locked
	}
	locked := "| Locked | kubelet | internal: nothing |\n"
	for name, test := range map[string]struct{ text, want string }{
		"right":                  {pageOf("| Open | kubelet | "+shown+" |\n", locked), ""},
		"a subtest and a script": {pageOf("| Open | kubelet | built: `right` of `TestProblems` of `compat/gates`, `compat/testdata/kubectl/path.txtar` |\n", locked), ""},
		"no row":                 {pageOf("", locked), "Open: is on by default (BETA) and has no row"},
		"two rows":               {pageOf("| Open | kubelet | "+shown+" |\n| Open | kubelet | "+shown+" |\n", locked), "Open: has two rows"},
		"not on":                 {pageOf("| Open | kubelet | "+shown+" |\n| Other | kubelet | internal: x |\n", locked), "Other: has a row and is not on by default"},
		"the other table":        {pageOf("| Locked | kubelet | internal: x |\n| Open | kubelet | "+shown+" |\n", ""), "Locked: locked true, want its row in the other table"},
		"no state":               {pageOf("| Open | kubelet | `TestProblems` of `compat/gates` |\n", locked), "Open: the state \"`TestProblems` of `compat/gates`\" is none of built, part, not built and internal with a test or a reason"},
		"no reason":              {pageOf("| Open | kubelet | part |\n", locked), `Open: the state "part" is none of built, part, not built and internal with a test or a reason`},
		"no test":                {pageOf("| Open | kubelet | built: of course |\n", locked), "Open: is built and names no test that exists"},
		"a test that is gone":    {pageOf("| Open | kubelet | part: `TestProblems` and `TestGone` of `compat/gates` |\n", locked), "Open: compat/gates has no test TestGone"},
		"a subtest that is gone": {pageOf("| Open | kubelet | built: `go"+"ne` of `TestProblems` of `compat/gates` |\n", locked), "Open: compat/gates has no test gone"},
		"another folder":         {pageOf("| Open | kubelet | part: `TestProblems` of `kubelet` |\n", locked), "Open: kubelet has no test TestProblems"},
		"no folder":              {pageOf("| Open | kubelet | part: `TestProblems` |\n", locked), "Open: no folder stands with the test TestProblems"},
		"a script that is gone":  {pageOf("| Open | kubelet | part: `compat/testdata/gone.txtar` |\n", locked), "Open: stat ../../compat/testdata/gone.txtar: no such file or directory"},
	} {
		if got := strings.Join(problems(parse(test.text), gates, root), "\n"); got != test.want {
			t.Errorf("problems of a page with %s = %q, want %q", name, got, test.want)
		}
	}
}
