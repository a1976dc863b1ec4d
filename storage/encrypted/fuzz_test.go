package encrypted_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/memstore"
)

// Whatever stands in the store: it is what was sealed, or damage.
func FuzzOpen(f *testing.F) {
	inner := memstore.New()
	create(f, open(f, inner, cipher("key1")), "/s/a", "value")
	kept, err := inner.Get(f.Context(), "/s/a", 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(kept.Value)
	f.Add(kept.Value[:len(kept.Value)-1])
	f.Add([]byte("k8s:enc:"))
	f.Add([]byte("k8s:enc:aesgcm:v1:key1"))
	f.Add([]byte("k8s:enc:aesgcm:v1:key1:"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		inner := memstore.New()
		create(t, inner, "/s/a", string(stored))
		store := open(t, inner, cipher("key1"))
		r, err := store.Get(t.Context(), "/s/a", 0)
		// Only the seed was ever sealed with the key. Fuzzing processes have
		// different seeds, because nonces are random.
		if err == nil && string(r.Value) != "value" || err != nil && (!errors.Is(err, storage.ErrDamaged) || r.Value != nil) {
			t.Errorf("%q, error %v", r.Value, err)
		}
	})
}

// What goes in comes out, under any key and no other.
func FuzzSeal(f *testing.F) {
	f.Add("a", "b", []byte("value"))
	f.Add("", "\x00", []byte{})
	f.Fuzz(func(t *testing.T, one, two string, value []byte) {
		inner := memstore.New()
		store := open(t, inner, cipher("key1"))
		r := create(t, store, "/s/"+storage.Key(one), string(value))
		got, err := store.Get(t.Context(), r.Key, 0)
		if err != nil || !bytes.Equal(got.Value, value) {
			t.Fatalf("%q, error %v, want %q", got.Value, err, value)
		}
		if one == two {
			return
		}
		kept, err := inner.Get(t.Context(), r.Key, 0)
		if err != nil {
			t.Fatal(err)
		}
		create(t, inner, "/s/"+storage.Key(two), string(kept.Value))
		if got, err := store.Get(t.Context(), "/s/"+storage.Key(two), 0); !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("a value of %q opens as that of %q: %q", one, two, got.Value)
		}
	})
}

// Any file is rules that make a store, or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(configuration))
	f.Add([]byte(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{}]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		rules, err := encrypted.Parse(file, encrypted.Layout("/registry"))
		if err != nil {
			return
		}
		if _, err := encrypted.New(encrypted.Config{Store: memstore.New(), Rules: rules}); err != nil || len(rules) == 0 {
			t.Errorf("%d rules, error %v", len(rules), err)
		}
	})
}
