package kube_test

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"
)

// exercise calls everything of r on obj and requires defaulting to be idempotent
// and nothing to panic or to change what is not its own.
func exercise(t *testing.T, r apiserver.Resource, obj runtime.Object) {
	t.Helper()
	old := obj.DeepCopyObject()
	s := r.Strategy
	if s.Default != nil {
		s.Default(obj)
		once := encode(t, obj)
		s.Default(obj)
		if twice := encode(t, obj); twice != once {
			t.Fatalf("%s: defaulted once\n%s\ntwice\n%s", r.Plural, once, twice)
		}
		s.Default(old)
	}
	created := obj.DeepCopyObject()
	if s.PrepareForCreate != nil {
		s.PrepareForCreate(t.Context(), created)
	}
	if s.Validate != nil {
		s.Validate(t.Context(), created)
	}
	before := encode(t, old)
	strategies := []apiserver.Strategy{s}
	for _, sub := range r.Subresources {
		switch sub := sub.(type) {
		case apiserver.Status:
			strategies = append(strategies, sub.Strategy)
		case apiserver.View:
			strategies = append(strategies, sub.Strategy)
		}
	}
	for _, s := range strategies {
		updated := obj.DeepCopyObject()
		if s.PrepareForUpdate != nil {
			s.PrepareForUpdate(t.Context(), updated, old)
		}
		if s.ValidateUpdate != nil {
			s.ValidateUpdate(t.Context(), updated, old)
		}
		if r.Strategy.Default != nil {
			r.Strategy.Default(updated)
		}
	}
	if after := encode(t, old); after != before {
		t.Fatalf("%s: old was\n%s\nis\n%s", r.Plural, before, after)
	}
	for _, c := range r.Columns {
		c.Value(obj)
	}
	for _, value := range r.Fields {
		value(obj)
	}
}

func encode(t *testing.T, obj runtime.Object) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// betweenDocuments matches the lines between the objects of testdata.
var betweenDocuments = regexp.MustCompile(`(?m)^(---|=> .*|[!#] .*)$`)

func FuzzObjects(f *testing.F) {
	files, err := filepath.Glob("*/testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, doc := range betweenDocuments.Split(string(data), -1) {
			if j, err := yaml.YAMLToJSON([]byte(doc)); err == nil {
				f.Add(j)
			}
		}
	}
	resources := kube.Resources()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range resources {
			obj := r.New()
			if json.Unmarshal(data, obj) != nil {
				continue
			}
			if _, err := json.Marshal(obj); err != nil {
				continue // such as a time after the year 9999
			}
			exercise(t, r, obj)
		}
	})
}

// TestRandomObjects fills objects at random, as no client would.
func TestRandomObjects(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	filler := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 2).MaxDepth(12).
		Funcs(func(raw *runtime.RawExtension, c randfill.Continue) {
			if raw.Raw = nil; c.Bool() {
				raw.Raw = []byte(`{"a":1}`)
			}
		})
	for _, r := range kube.Resources() {
		exercised := 0
		for range 30 {
			obj := r.New()
			filler.Fill(obj)
			data, err := json.Marshal(obj)
			if err != nil {
				continue // as above
			}
			obj = r.New()
			if err := json.Unmarshal(data, obj); err != nil {
				continue // such as a quantity of no number
			}
			exercise(t, r, obj)
			exercised++
		}
		if exercised == 0 {
			t.Errorf("%s: no object was usable", r.Plural)
		}
	}
}
