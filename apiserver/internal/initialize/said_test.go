package initialize

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzRead reads what bodies say: the same as a reader of everything would find, and what is put
// into the metadata of an object is found there again.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"initializers":{"pending":[{"name":"a.b.c"}]}}}`, `{"metadata":{"initializers":null}}`, `{"metadata":{}}`,
		`{"metadata":{"name":"x","initializers":{"result":{"status":"Failure","code":403}}},"spec":{}}`, `{"data":{"initializers":"x"}}`,
		`{"metadata":{"initializers":7}}`, `{"metadata":[]}`, `{"metadata": { }, "spec":{"metadata":{"name":"initializers"}}}`, `[]`, `{"Metadata":{"Initializers":{}}}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read(data)
		var all map[string]any
		if json.Unmarshal(data, &all) != nil {
			return
		}
		meta, _ := all["metadata"].(map[string]any)
		field, there := meta["initializers"]
		if err == nil && got.Said && !there {
			t.Errorf("%s: said %v", data, got)
		}
		if err == nil && there && !got.Said && bytes.Contains(data, fieldName) {
			t.Errorf("%s: %v was not read", data, field)
		}
		if field == nil && got.State != nil {
			t.Errorf("%s: nothing became %v", data, got.State)
		}
		if meta == nil || there {
			return
		}
		state := &State{Pending: []Initializer{{"a.b.c"}}, Result: &metav1.Status{Status: metav1.StatusFailure}}
		with, err := insert(data, state)
		if err != nil {
			t.Fatalf("insert(%q, %+v): %v", data, state, err)
		}
		again, err := Read(with)
		if err != nil || !reflect.DeepEqual(again.State, state) {
			// Two fields of one name hide one another.
			if bytes.Count(data, []byte("metadata")) < 2 && bytes.Count(data, []byte(`\u`)) == 0 {
				t.Errorf("%s: %v came back as %v, %v", with, state, again.State, err)
			}
		}
	})
}
