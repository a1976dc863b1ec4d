package yamljson

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var limits = Limits{Depth: 256, Bytes: 3 << 20}

var yamlSamples = []string{
	"a: 1\nb: [x, 'y', \"z\"]\nc: {d: null, e: ~}\n", "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n", "1: a\ntrue: b\n2.5: c\n.inf: d\n", "a: 1\na: 2\n", "a: |\n  text\n  more\nb: >-\n  folded\n",
	"a: 0x10\nb: 0o7\nc: 1e3\nd: 12345678901234567890\ne: -1\nf: yes\ng: 2020-01-01\n", "- 1\n- [2]\n", "text", "", "a: .nan", "? [a]\n: b\n", "!!binary aGk=: 1", "a: !!binary aGk=\n", "{", "a: b: c", "\t", "---\na: 1\n---\nb: 2\n",
	`{"a":"\u00e9","b":1.0}`, "a: <&>", "a: *unknown", "&a a: *a",
}

// TestYAMLIsTheLibrarys: YAML becomes the JSON that sigs.k8s.io/yaml makes of it.
func TestYAMLIsTheLibrarys(t *testing.T) {
	for _, text := range yamlSamples {
		compareYAML(t, text)
	}
}

func compareYAML(t *testing.T, text string) {
	t.Helper()
	want, err := yaml.YAMLToJSON([]byte(text))
	_, strict := yaml.YAMLToJSONStrict([]byte(text))
	got, twice, ours := Convert(context.Background(), []byte(text), limits, true)
	if ours != nil && (strings.Contains(ours.Error(), "stand for more") || strings.Contains(ours.Error(), "more than")) {
		return
	}
	var a, b any
	switch {
	case (err == nil) != (ours == nil):
		t.Fatalf("%q: %v, the library says %v", text, ours, err)
	case err != nil:
	case json.Unmarshal(want, &a) != nil || json.Unmarshal(got, &b) != nil || !reflect.DeepEqual(a, b):
		t.Fatalf("%q is %s, the library says %s", text, got, want)
	case fmt.Sprint(twice) != fmt.Sprint(strict):
		t.Fatalf("%q: keys twice: %v, the library says %v", text, twice, strict)
	}
}

func TestYAMLRefusals(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx        context.Context
		text, want string
	}{
		"deep":    {context.Background(), strings.Repeat("[", 300) + strings.Repeat("]", 300), "more than 256 levels"},
		"many":    {context.Background(), strings.Repeat("- a\n", 60_001), "more than 60000 values"},
		"aliases": {context.Background(), "a: &a " + strings.Repeat("x", 1<<16) + "\nb: [" + strings.Repeat("*a,", 100) + "1]", "aliases stand for more"},
		"ended":   {ended, strings.Repeat("- a\n", 10_000), "canceled"},
	} {
		if _, _, err := Convert(c.ctx, []byte(c.text), limits, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Convert(%s) = %v, want an error with %q", name, err, c.want)
		}
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range yamlSamples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Where two keys have one name in JSON, the library takes either.
		if _, err := yaml.YAMLToJSONStrict([]byte(text)); err == nil && !strings.ContainsAny(text, "0123456789.") {
			compareYAML(t, text)
		} else {
			_, _, _ = Convert(context.Background(), []byte(text), limits, true)
		}
	})
}
