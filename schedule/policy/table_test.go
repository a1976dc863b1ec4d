package policy

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTables checks that the tables of plugins and names agree.
func TestTables(t *testing.T) {
	known := make(map[string]bool)
	for _, p := range plugins {
		if known[p.name] {
			t.Errorf("%s is there twice", p.name)
		}
		known[p.name] = true
		if p.predicate != nil && p.points != nil && !slices.Contains(p.points, filter) || p.priority != nil && p.points != nil && !slices.Contains(p.points, score) {
			t.Errorf("%s cannot be enabled where it acts", p.name)
		}
		if (p.weight != 0) != (p.standard && slices.Contains(p.points, score) && p.name != volumeBinding) {
			t.Errorf("%s has the weight %d", p.name, p.weight)
		}
	}
	for _, row := range predicateNames {
		for _, name := range row.plugins {
			if !known[name] {
				t.Errorf("%s: there is no plugin %s", row.name, name)
			}
		}
	}
	for _, row := range priorityNames {
		if row.plugin != "" && !known[row.plugin] {
			t.Errorf("%s: there is no plugin %s", row.name, row.plugin)
		}
	}
	for argument, name := range nameOfArgument {
		if row := predicateOf(name); row == nil || row.argument != argument {
			t.Errorf("%s is not the argument of %s", argument, name)
		}
	}
	for argument, name := range pluginOfArgument {
		if !known[name] {
			t.Errorf("%s: there is no plugin %s", argument, name)
		}
	}
}

// TestPackageCommentNamesGaps checks that the package comment lists exactly what is not supported.
func TestPackageCommentNamesGaps(t *testing.T) {
	text, err := os.ReadFile("policy.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "// # Not included\n")
	section, _, _ = strings.Cut(section, "\npackage policy")
	var want []string
	for _, p := range plugins {
		if p.points != nil && !p.supported() {
			want = append(want, p.name)
		}
	}
	for _, row := range predicateNames {
		if pluginOf(row.plugins[0]).predicate == nil {
			want = append(want, row.name)
		}
	}
	for _, row := range priorityNames {
		if row.plugin != "" && pluginOf(row.plugin).priority == nil {
			want = append(want, row.name)
		}
	}
	for argument, name := range pluginOfArgument {
		if _, ofPredicate := nameOfArgument[argument]; !ofPredicate && pluginOf(name).priority == nil {
			want = append(want, argument)
		}
	}
	got := regexp.MustCompile(`\b([A-Za-z]+[a-z][A-Z]\w*)\b`).FindAllString(section, -1)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the comment names\n%s, want\n%s", got, want)
	}
}

// TestHardWeight checks that 0 means the default weight, as in Kubernetes.
func TestHardWeight(t *testing.T) {
	for text, want := range map[string]int64{"": 1, "hardPodAffinitySymmetricWeight: 0": 1, "hardPodAffinitySymmetricWeight: 10": 10} {
		f, err := DecodePolicy([]byte("apiVersion: v1\nkind: Policy\n" + text))
		if err != nil || f.profiles[0].args.hardWeight != want {
			t.Errorf("%q: %+v, error %v", text, f, err)
		}
	}
}

// TestLabels checks that the labels in arguments of a Policy reach the constructors of plugins.
func TestLabels(t *testing.T) {
	var a profile
	a.args, a.named = defaultArguments(), make(map[string]string)
	var given policyFile
	err := decode([]byte(`{
		"predicates": [{"name": "a", "argument": {"labelsPresence": {"labels": ["p", "q"], "presence": true}}},
			{"name": "b", "argument": {"labelsPresence": {"labels": ["r"]}}}, {"name": "c", "argument": {"serviceAffinity": {"labels": ["s"]}}}],
		"priorities": [{"name": "d", "weight": 1, "argument": {"labelPreference": {"label": "t", "presence": true}}},
			{"name": "e", "weight": 1, "argument": {"labelPreference": {"label": "u"}}},
			{"name": "f", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "v"}}}]
	}`), &given)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{}
	if err := errors.Join(f.addPredicates(&a, given.Predicates), f.addPriorities(&a, given.Priorities)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", a.args.labels); got != "{present:[p q] absent:[r] likes:[t] dislikes:[u] together:[s] apart:[v]}" {
		t.Error(got)
	}
}
