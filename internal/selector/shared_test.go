package selector_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/selector"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func ExampleOf() {
	parsed, _ := selector.Of(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
	fmt.Println(parsed.Matches(labels.Set{"app": "web", "tier": "front"}), parsed)
	// Output: true app=web
}

// TestOfModel compares with the selectors of Kubernetes, short and long ones, alone and with added requirements.
func TestOfModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 1))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	operators := []metav1.LabelSelectorOperator{"In", "NotIn", "NotIn", "NotIn", "Exists", "DoesNotExist", "DoesNotExist"}
	matched, wrong := 0, 0
	for range 2_000 {
		s := &metav1.LabelSelector{}
		for range rnd.IntN(3) {
			s.MatchLabels = map[string]string{pick("a", "b", "c"): pick("1", "2")}
		}
		for range rnd.IntN(30) {
			r := metav1.LabelSelectorRequirement{Key: pick("a", "b", "c", "d", "e", "f"), Operator: operators[rnd.IntN(len(operators))]}
			switch r.Operator {
			case "NotIn":
				r.Values = []string{pick("1", "2", "3", "4", "5", "6"), "x"}
			case "In":
				r.Key, r.Values = "a", []string{"1", "2", pick("1", "2", "3")}
			case "DoesNotExist":
				r.Key = pick("d", "e", "f")
			}
			if rnd.IntN(1000) == 0 {
				r.Operator = "Like"
			}
			s.MatchExpressions = append(s.MatchExpressions, r)
		}
		of := labels.Set{}
		for range rnd.IntN(5) {
			of[pick("a", "a", "b", "c", "d")] = pick("1", "2", "7")
		}
		want, wantErr := metav1.LabelSelectorAsSelector(s)
		got, err := selector.Of(s)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("Of(%v) = %v, want %v", s, err, wantErr)
		}
		if err != nil {
			wrong++
			if selector.Matches(s, of) || selector.OrNothing(s).Matches(of) {
				t.Fatalf("an invalid selector %v matches %v", s, of)
			}
			continue
		}
		if is := selector.Matches(s, of); is != want.Matches(of) {
			t.Fatalf("Matches(%v, %v) = %v, want %v", s, of, is, !is)
		}
		added := labels.Set{pick("a", "b"): pick("1", "2")}
		more, _ := added.AsSelector().Requirements()
		for range 3 {
			// The order of requirements on one key is up to their sorting.
			if sorted(got.String()) != sorted(want.String()) || got.Empty() != want.Empty() {
				t.Fatalf("Of(%v) = %q, %v, want %q, %v", s, got, got.Empty(), want, want.Empty())
			}
			gotAll, _ := got.Requirements()
			wantAll, _ := want.Requirements()
			if len(gotAll) != len(wantAll) {
				t.Fatalf("Of(%v) has %d requirements, want %d", s, len(gotAll), len(wantAll))
			}
			is, must := got.Matches(of), want.Matches(of)
			if value, found := got.RequiresExactMatch("a"); is != must || got.Matches(notSet{of}) != must || found != exactly(wantAll, "a", value) {
				t.Fatalf("Of(%v).Matches(%v) = %v, want %v; a must be %q, %v", got, of, is, must, value, found)
			}
			if is {
				matched++
			}
			got, want = selector.And(got, added), want.Add(more...)
		}
	}
	if matched < 100 || wrong < 10 {
		t.Errorf("%d matched and %d were invalid, want at least 100 and 10", matched, wrong)
	}
	for _, of := range []labels.Set{nil, {"a": "1"}} {
		if selector.Matches(nil, of) || !selector.Matches(&metav1.LabelSelector{}, of) || selector.And(labels.Nothing(), of).Matches(of) {
			t.Errorf("%v: a missing selector matches, or an empty one does not", of)
		}
	}
}

func sorted(text string) string {
	all := strings.Split(text, ",")
	slices.Sort(all)
	return strings.Join(all, ",")
}

// exactly reports whether a requirement is that a label has a value.
func exactly(all labels.Requirements, label, value string) bool {
	return slices.ContainsFunc(all, func(r labels.Requirement) bool {
		return r.Key() == label && r.Operator() == "=" && r.ValuesUnsorted()[0] == value
	})
}

// notSet are labels that are no labels.Set.
type notSet struct{ labels.Labels }

// expressions returns a selector with n requirements that matches no object with one of its keys or values.
func expressions(n int, requirement func(i int) metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for i := range n {
		s.MatchExpressions = append(s.MatchExpressions, requirement(i))
	}
	return s
}

func absent(n int) *metav1.LabelSelector {
	return expressions(n, func(i int) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: fmt.Sprint("key", i), Operator: metav1.LabelSelectorOpDoesNotExist}
	})
}

// TestOfParsesOnce: a selector of an object that 1,000 events ask for is parsed once, and its text is made once.
func TestOfParsesOnce(t *testing.T) {
	values := expressions(1, func(int) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpNotIn}
		for i := range 40_000 {
			r.Values = append(r.Values, fmt.Sprint("v", i))
		}
		return r
	})
	same := labels.Set{}
	for i := range 20_000 {
		same[fmt.Sprint("key", i)] = "v"
	}
	of, added := map[string]string{"app": "web", "tier": "front"}, labels.Set{"tier": "front"}
	for _, c := range []struct {
		name string
		s    *metav1.LabelSelector
		want bool
	}{
		{"absent keys", absent(20_000), true}, {"values", values, true}, {"labels", &metav1.LabelSelector{MatchLabels: same}, false},
	} {
		began := time.Now()
		for range 1000 {
			s, err := selector.Of(c.s)
			if err != nil {
				t.Fatal(err)
			}
			both := selector.And(s, added)
			if s.Matches(labels.Set(of)) != c.want || both.Matches(labels.Set(of)) != c.want || len(s.String()) < 100_000 {
				t.Fatalf("%s: Of() = %.100s..., which matches %v: %v", c.name, s, of, !c.want)
			}
		}
		took := time.Since(began)
		t.Logf("%s: 1000 events take %v", c.name, took)
		if took > 5*time.Second {
			t.Errorf("%s: 1000 events take %v, want less than 5s", c.name, took)
		}
	}
}

// TestOfForgets: what is remembered about a selector goes with it.
func TestOfForgets(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 12 { // 3 MB each
		if _, err := selector.Of(absent(10_000)); err != nil {
			t.Fatal(err)
		}
	}
	// The runtime calls cleanups in a goroutine of its own, some time after the collection.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		runtime.ReadMemStats(&after)
		if after.HeapAlloc < before.HeapAlloc+20<<20 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("12 selectors that are gone take %d MB after 10 seconds, want less than 20", (after.HeapAlloc-before.HeapAlloc)>>20)
		}
	}
}

// TestOneEntrance: selectors of objects are parsed by Of, except where one is parsed once for a request, an attempt
// or a volume and compared with one object or few.
func TestOneEntrance(t *testing.T) {
	once := map[string]string{
		"apiserver/kube/rbac/roles.go":              "validates a selector",
		"apiserver/kube/apps/statefulset.go":        "compares the selector with the template",
		"apiserver/kube/apps/deployment.go":         "compares the selector with the template, and writes it in a table",
		"apiserver/kube/apps/daemonset.go":          "compares the selector with the template",
		"apiserver/kube/batch/jobvalidation.go":     "compares the selector with the template",
		"apiserver/kube/internal/define/scale.go":   "writes the selector as text",
		"kubelet/trustbundle/trustbundle.go":        "a selector of at most 100 KiB, for a volume",
		"reconcile/controllers/autoscale/metric.go": "sends the selector to a source of metrics",
		"internal/selector/shared.go":               "Of itself",
	}
	root := os.DirFS("../..")
	found := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bench" || name == "compat" || name != "." && strings.HasPrefix(path.Base(name), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if strings.Contains(string(data), "metav1.LabelSelectorAsSelector(") {
			found[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if once[name] == "" {
			t.Errorf("%s calls metav1.LabelSelectorAsSelector, want selector.Of", name)
		}
		delete(once, name)
	}
	for name, why := range once {
		t.Errorf("%s (%s) does not call metav1.LabelSelectorAsSelector any more", name, why)
	}
}
