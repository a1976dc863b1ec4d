package apiserver

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/initialize"
	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzStoredInitializers decodes what may be in storage, and finds again what was put there.
func FuzzStoredInitializers(f *testing.F) {
	k := wireKind(f, podResource())
	magic := []byte("initializers\x00")
	state := initialize.New([]string{"a.b.c", "d.e.f"})
	good, err := k.encodeHidden(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, state)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(magic)+3])
	f.Add(append(bytes.Clone(magic), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := k.decodeItem(storage.Record{Key: "/x", Value: value, Revision: 7}, nil)
		if err != nil {
			return
		}
		if bytes.HasPrefix(value, magic) != (o.hidden != nil) {
			t.Fatalf("%q has initializers %v", value, o.hidden)
		}
		if o.parts.Usable() && o.hidden != nil {
			t.Fatalf("%q is sent as it is stored", value)
		}
		again, err := k.encodeHidden(context.Background(), o.Object.DeepCopyObject(), o.hidden)
		if err != nil {
			return
		}
		second, err := k.decodeItem(storage.Record{Key: "/x", Value: again, Revision: 7}, nil)
		if err != nil || !reflect.DeepEqual(second.hidden, o.hidden) {
			t.Errorf("%q became %v, %v", again, second, err)
		}
	})
}
