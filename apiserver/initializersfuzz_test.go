package apiserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzSentInitializers reads what bodies say: the same as a reader of everything
// would find, and what is put into an object's metadata is found there again.
func FuzzSentInitializers(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"initializers":{"pending":[{"name":"a.b.c"}]}}}`, `{"metadata":{"initializers":null}}`, `{"metadata":{}}`,
		`{"metadata":{"name":"x","initializers":{"result":{"status":"Failure","code":403}}},"spec":{}}`, `{"data":{"initializers":"x"}}`,
		`{"metadata":{"initializers":7}}`, `{"metadata":[]}`, `{"metadata": { }, "spec":{"metadata":{"name":"initializers"}}}`, `[]`, `{"Metadata":{"Initializers":{}}}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := sentIn(data)
		var all map[string]any
		if json.Unmarshal(data, &all) != nil {
			return
		}
		meta, _ := all["metadata"].(map[string]any)
		field, there := meta["initializers"]
		if err == nil && got.said && !there {
			t.Errorf("%s: said %v", data, got)
		}
		if err == nil && there && !got.said && bytes.Contains(data, initializersName) {
			t.Errorf("%s: %v was not heard", data, field)
		}
		if field == nil && got.state != nil {
			t.Errorf("%s: nothing became %v", data, got.state)
		}
		if meta == nil || there {
			return
		}
		state := &initializers{Pending: []initializer{{"a.b.c"}}, Result: &metav1.Status{Status: metav1.StatusFailure}}
		with, err := withInitializers(data, state)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		again, err := sentIn(with)
		if err != nil || !reflect.DeepEqual(again.state, state) {
			// Two fields of one name hide one another.
			if bytes.Count(data, []byte("metadata")) < 2 && bytes.Count(data, []byte(`\u`)) == 0 {
				t.Errorf("%s: %v came back as %v, %v", with, state, again.state, err)
			}
		}
	})
}

// FuzzStoredInitializers decodes what may lie in storage, and finds again what
// was put there.
func FuzzStoredInitializers(f *testing.F) {
	k := wireKind(f, podResource())
	state := &initializers{Pending: []initializer{{"a.b.c"}, {"d.e.f"}}}
	good, err := k.encodeWith(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, state)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(initializersMagic)+3])
	f.Add(append(bytes.Clone(initializersMagic), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := k.decodeItem(storage.Record{Key: "/x", Value: value, Revision: 7}, nil)
		if err != nil {
			return
		}
		if bytes.HasPrefix(value, initializersMagic) != (o.initializers != nil) {
			t.Fatalf("%q has initializers %v", value, o.initializers)
		}
		if o.parts.usable() && o.initializers != nil {
			t.Fatalf("%q is sent as it is stored", value)
		}
		again, err := k.encodeWith(o.Object.DeepCopyObject(), o.initializers)
		if err != nil {
			return
		}
		second, err := k.decodeItem(storage.Record{Key: "/x", Value: again, Revision: 7}, nil)
		if err != nil || !reflect.DeepEqual(second.initializers, o.initializers) {
			t.Errorf("%q became %v, %v", again, second, err)
		}
	})
}
