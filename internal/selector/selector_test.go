package selector_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/selector"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func ExampleLabels() {
	parsed, _ := labels.Parse("tier in (web,db),!canary")
	compiled := selector.Labels(parsed)
	fmt.Println(compiled.Matches(map[string]string{"tier": "web"}), compiled.Matches(map[string]string{"tier": "web", "canary": ""}))
	// Output: true false
}

// TestLabelsModel compares with the selectors of Kubernetes.
func TestLabelsModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 1))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	keys := strings.Fields("a b c d e f g h i j k l m n")
	values := strings.Fields("1 2 3 44 x y z")
	matched := 0
	for range 10_000 {
		var terms []string
		some := keys[:1+rnd.IntN(len(keys))]
		for range rnd.IntN(14) {
			key := pick(some...)
			terms = append(terms, pick(key, "!"+key, key+"="+pick(values...), key+"!="+pick(values...), key+"=", key+"!="+pick(values...), key+"!="+pick(values...),
				key+" in ("+pick(values...)+","+pick(values...)+","+pick(values...)+")", key+" notin ("+pick(values...)+",q)", key+">"+pick("0", "1", "2"), key+"<"+pick("3", "4")))
		}
		text := strings.Join(terms, ",")
		parsed, err := labels.Parse(text)
		if err != nil {
			t.Fatalf("Parse(%q) = %v", text, err)
		}
		compiled := selector.Labels(parsed)
		if compiled.Empty() != parsed.Empty() {
			t.Fatalf("Labels(%q).Empty() = %v, want %v", text, compiled.Empty(), parsed.Empty())
		}
		of := map[string]string{}
		for range rnd.IntN(8) {
			of[pick(some...)] = pick(values...)
		}
		want := parsed.Matches(labels.Set(of))
		if got := compiled.Matches(of); got != want {
			t.Fatalf("Labels(%q).Matches(%v) = %v, want %v", text, of, got, want)
		}
		if want && len(terms) > 1 {
			matched++
		}
	}
	if matched < 200 {
		t.Errorf("%d of the selectors matched, want more than 200", matched)
	}
	if nothing := selector.Labels(labels.Nothing()); nothing.Matches(nil) || nothing.Empty() {
		t.Error("Labels(Nothing()) matches or is empty")
	}
}

// TestFieldsModel compares with the selectors of Kubernetes.
func TestFieldsModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 2))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	for range 4_000 {
		var terms []string
		for range rnd.IntN(6) {
			terms = append(terms, pick("a", "b", "c")+pick("=", "==", "!=", "!=")+pick("", "1", "2", "3"))
		}
		text := strings.Join(terms, ",")
		parsed, err := fields.ParseSelector(text)
		if err != nil {
			t.Fatalf("ParseSelector(%q) = %v", text, err)
		}
		compiled := selector.Fields(parsed)
		of := fields.Set{"a": pick("", "1", "2", "3"), "b": pick("", "1"), "c": pick("1", "2")}
		if got, want := compiled.Matches(of), parsed.Matches(of); got != want || compiled.Empty() != parsed.Empty() {
			t.Fatalf("Fields(%q): Matches(%v) = %v, Empty() = %v, want %v, %v", text, of, got, compiled.Empty(), want, parsed.Empty())
		}
		for field, value := range compiled.Equals {
			if want, ok := parsed.RequiresExactMatch(field); !ok || value != want {
				t.Fatalf("Fields(%q) has %s=%s, want %q, %v", text, field, value, want, ok)
			}
		}
	}
	if nothing := selector.Fields(fields.Nothing()); nothing.Matches(fields.Set{}) || nothing.Empty() {
		t.Error("Fields(Nothing()) matches or is empty")
	}
}

// TestManyRequirements: an object is matched in a few microseconds, however many requirements there
// are and however they are written.
func TestManyRequirements(t *testing.T) {
	repeat := func(format string) string {
		var out strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&out, format, i)
		}
		return strings.TrimSuffix(out.String(), ",")
	}
	of := map[string]string{"a": "x", "app": "web", "k5": "v5"}
	for name, text := range map[string]string{
		"absent keys":      repeat("!x%d,"),
		"other values":     repeat("x%d!=v,"),
		"one key":          repeat("a!=v%d,"),
		"one value of":     "a notin (" + repeat("v%d,") + ")",
		"many values":      "a in (x," + repeat("v%d,") + ")",
		"one key, numbers": repeat("!y,k5!=%d,"),
	} {
		parsed, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		compiled := selector.Labels(parsed)
		began := time.Now()
		for range 1000 {
			if !compiled.Matches(of) {
				t.Fatalf("%s: Matches(%v) = false, want true", name, of)
			}
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("%s: 1000 objects take %v, want less than 500ms", name, took)
		}
	}
}
