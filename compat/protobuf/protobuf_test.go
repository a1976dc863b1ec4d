package protobuf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/kinds/apiregistration"
	stockextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stockregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

// A message is a type of either side.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Reset()
}

// kinds pairs the types.
var kinds = []struct {
	name        string
	stock, ours func() message
}{
	{"CustomResourceDefinition", func() message { return &stockextensions.CustomResourceDefinition{} }, func() message { return &apiextensions.CustomResourceDefinition{} }},
	{"CustomResourceDefinitionList", func() message { return &stockextensions.CustomResourceDefinitionList{} }, func() message { return &apiextensions.CustomResourceDefinitionList{} }},
	{"APIService", func() message { return &stockregistration.APIService{} }, func() message { return &apiregistration.APIService{} }},
	{"APIServiceList", func() message { return &stockregistration.APIServiceList{} }, func() message { return &apiregistration.APIServiceList{} }},
}

// filler fills stock objects with what JSON and protobuf can both express.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.6).NumElements(1, 2).MaxDepth(14).Funcs(
		func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(1+c.Int63n(1<<31), 0) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.Raw = fmt.Appendf(nil, `{"f:a%d":{}}`, c.Intn(9)) },
		func(t *metav1.TypeMeta, c randfill.Continue) {}, // not a part of the message
		func(j *stockextensions.JSON, c randfill.Continue) {
			j.Raw = []byte([]string{`1`, `"a"`, `{"a":[1,2]}`, `true`, `[]`, `1.5e3`}[c.Intn(6)])
		},
		func(s *stockextensions.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Bool() {
				c.Fill(&s.Schema)
			} else {
				c.Fill(&s.JSONSchemas)
			}
		},
	)
}

// TestBytes: what Kubernetes' types write is read by ours and written as the same bytes, and the other way round; both
// have the same JSON.
func TestBytes(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			largest, total := 0, 0
			for seed := range int64(2000) {
				original := kind.stock()
				filler(seed).Fill(original)
				want, err := original.Marshal()
				if err != nil {
					t.Fatalf("seed %d: Marshal() of Kubernetes' type = %v, want nil", seed, err)
				}
				largest, total = max(largest, len(want)), total+len(want)
				ours := kind.ours()
				if err := ours.Unmarshal(want); err != nil {
					t.Fatalf("seed %d: Unmarshal(%x) = %v, want nil", seed, want, err)
				}
				got, err := ours.Marshal()
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("seed %d: Marshal() = %x, %v, want %x, nil", seed, got, err, want)
				}
				back := kind.stock()
				if err := back.Unmarshal(got); err != nil {
					t.Fatalf("seed %d: Unmarshal(%x) of Kubernetes' type = %v, want nil", seed, got, err)
				}
				wantJSON, err := json.Marshal(back)
				if err != nil {
					t.Fatal(err)
				}
				if gotJSON, err := json.Marshal(ours); err != nil || !bytes.Equal(gotJSON, wantJSON) {
					t.Fatalf("seed %d: json.Marshal() = %s, %v, want %s, nil", seed, gotJSON, err, wantJSON)
				}
				ours.Reset()
				if !reflect.DeepEqual(ours, kind.ours()) {
					t.Errorf("Reset() leaves %v", ours)
				}
			}
			t.Logf("2,000 objects of %d bytes on average, the largest of %d", total/2000, largest)
		})
	}
}

// TestNumbers: each field of Kubernetes' types that has a number has it here.
func TestNumbers(t *testing.T) {
	for _, kind := range kinds {
		compareTypes(t, reflect.TypeOf(kind.stock()).Elem(), reflect.TypeOf(kind.ours()).Elem(), map[reflect.Type]bool{})
	}
}

func compareTypes(t *testing.T, stock, ours reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	for stock.Kind() == reflect.Pointer || stock.Kind() == reflect.Slice || stock.Kind() == reflect.Map {
		stock, ours = stock.Elem(), ours.Elem()
	}
	if stock.Kind() != reflect.Struct || stock == ours || seen[stock] {
		return
	}
	seen[stock] = true
	for i := range stock.NumField() {
		f := stock.Field(i)
		if f.Tag.Get("protobuf") == "" {
			continue
		}
		same, ok := ours.FieldByName(f.Name)
		if !ok || same.Tag.Get("protobuf") != f.Tag.Get("protobuf") {
			t.Errorf("%s.%s has the tag %q, want %q", ours, f.Name, same.Tag.Get("protobuf"), f.Tag.Get("protobuf"))
			continue
		}
		compareTypes(t, f.Type, same.Type, seen)
	}
}

// FuzzDefinition: a message is read by both sides or refused by ours, and then written as the same bytes.
func FuzzDefinition(f *testing.F) {
	for seed := range int64(20) {
		d := &stockextensions.CustomResourceDefinition{}
		filler(seed).Fill(d)
		data, err := d.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := &apiextensions.CustomResourceDefinition{}, &stockextensions.CustomResourceDefinition{}
		if ours.Unmarshal(data) != nil {
			return
		}
		if err := theirs.Unmarshal(data); err != nil {
			t.Fatalf("Unmarshal(%x) = nil, Kubernetes' type says %v", data, err)
		}
	})
}
