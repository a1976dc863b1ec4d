package encrypted_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cipher returns one whose key is made from its name.
func cipher(name string) encrypted.Cipher {
	return encrypted.Cipher{Name: name, Key: bytes.Repeat([]byte(name[len(name)-1:]), 32)}
}

var identity encrypted.Cipher

// open returns a store on top of inner that seals everything under /s/.
func open(t testing.TB, inner storage.Store, ciphers ...encrypted.Cipher) *encrypted.Store {
	t.Helper()
	store, err := encrypted.New(encrypted.Config{Store: inner, Rules: []encrypted.Rule{{Prefix: "/s/", Ciphers: ciphers}}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func create(t testing.TB, s storage.Store, key storage.Key, value string) storage.Record {
	t.Helper()
	r, err := s.Commit(t.Context(), storage.Change{Key: key, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func update(t testing.TB, s storage.Store, r storage.Record, value []byte) storage.Record {
	t.Helper()
	r, err := s.Commit(t.Context(), storage.Change{Op: storage.Update, Key: r.Key, Value: value, Previous: r.Revision})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reads checks what a store makes of key.
func reads(t *testing.T, s storage.Store, key storage.Key, value string, stale bool) storage.Record {
	t.Helper()
	r, err := s.Get(t.Context(), key, 0)
	if err != nil || string(r.Value) != value || r.Stale != stale {
		t.Errorf("%s: %q, stale %v, error %v, want %q, stale %v", key, r.Value, r.Stale, err, value, stale)
	}
	return r
}

// A store that seals is a store like any other.
func TestStore(t *testing.T) {
	for name, ciphers := range map[string][]encrypted.Cipher{
		"sealed":   {cipher("key1"), cipher("key2")},
		"identity": {identity, cipher("key1")},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t testing.TB) storage.Store {
				store, err := encrypted.New(encrypted.Config{Store: memstore.New(), Rules: []encrypted.Rule{{Ciphers: ciphers}}})
				if err != nil {
					t.Fatal(err)
				}
				return store
			}, storagetest.VirtualTime())
		})
	}
}

// A key is rotated without a moment at which something cannot be read.
func TestRotation(t *testing.T) {
	inner := memstore.New()
	create(t, open(t, inner, identity), "/s/plain", "one")
	reads(t, open(t, inner, cipher("key1"), identity), "/s/plain", "one", true)
	create(t, open(t, inner, cipher("key1"), identity), "/s/first", "two")

	both := open(t, inner, cipher("key2"), cipher("key1"), identity)
	page, err := both.List(t.Context(), "/s/", storage.ListOptions{})
	if err != nil || len(page.Records) != 2 {
		t.Fatalf("%v, error %v", page, err)
	}
	for _, r := range page.Records {
		if !r.Stale || r.Damage != nil {
			t.Errorf("%s: stale %v, damage %v", r.Key, r.Stale, r.Damage)
		}
		if again := update(t, both, r, r.Value); again.Stale {
			t.Errorf("%s is stale after it was written again", r.Key)
		}
	}
	last := open(t, inner, cipher("key2"))
	reads(t, last, "/s/plain", "one", false)
	reads(t, last, "/s/first", "two", false)

	// And back.
	reads(t, open(t, inner, identity, cipher("key2")), "/s/first", "two", true)
}

// What is the matter with a value, and what the error says.
func damages(t *testing.T, inner storage.Store) map[storage.Key]string {
	sealed := create(t, open(t, inner, cipher("key1")), "/s/sound", "value")
	kept, err := inner.Get(t.Context(), sealed.Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(i int) string {
		value := bytes.Clone(kept.Value)
		value[i] ^= 1
		return string(value)
	}
	header := len("k8s:enc:aesgcm:v1:key1:")
	all := map[storage.Key]string{}
	for key, d := range map[storage.Key][2]string{
		"/s/ciphertext":   {flipped(len(kept.Value) - 20), "it was changed, or written under another key"},
		"/s/tag":          {flipped(len(kept.Value) - 1), "it was changed"},
		"/s/nonce":        {flipped(header), "it was changed"},
		"/s/name":         {flipped(header - 2), `the cipher "key0" is not configured`},
		"/s/short":        {string(kept.Value[:header+5]), "it was changed"},
		"/s/moved":        {string(kept.Value), "written under another key"},
		"/s/plain":        {"value", "it is not encrypted"},
		"/s/empty":        {"", "it is not encrypted"},
		"/s/unknown":      {"k8s:enc:aescbc:v1:key1:abc", "it was encrypted by unknown means"},
		"/none/encrypted": {string(kept.Value), `the cipher "key1" is not configured`},
	} {
		create(t, inner, key, d[0])
		all[key] = d[1]
	}
	return all
}

// A value that was tampered with is found out and named; everything else goes on.
func TestDamage(t *testing.T) {
	inner := memstore.New()
	store := open(t, inner, cipher("key1"))
	w, err := store.Watch(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	damaged := damages(t, inner)
	page, err := store.List(t.Context(), "", storage.ListOptions{})
	if err != nil || len(page.Records) != len(damaged)+1 {
		t.Fatalf("%d records, error %v", len(page.Records), err)
	}
	events, err := w.Next(t.Context())
	if err != nil || len(events) != len(damaged)+1 {
		t.Fatalf("%d events, error %v", len(events), err)
	}
	records := page.Records
	for _, e := range events {
		records = append(records, e.Record)
	}
	for _, r := range records {
		want := damaged[r.Key]
		if want == "" {
			if r.Damage != nil || string(r.Value) != "value" {
				t.Errorf("the sound record %s has the value %q and damage %v, want value and none", r.Key, r.Value, r.Damage)
			}
			continue
		}
		if !errors.Is(r.Damage, storage.ErrDamaged) || r.Value != nil || !strings.Contains(fmt.Sprint(r.Damage), want) || !strings.Contains(r.Damage.Error(), string(r.Key)) {
			t.Errorf("%s: %q, damage %v, want %q", r.Key, r.Value, r.Damage, want)
		}
		if got, err := store.Get(t.Context(), r.Key, 0); !errors.Is(err, storage.ErrDamaged) || got.Revision != r.Revision || got.Value != nil {
			t.Errorf("get %s: %v, error %v", r.Key, got, err)
		}
	}
}

// A damaged record can be replaced and removed by its revision.
func TestDamageIsRepaired(t *testing.T) {
	inner := memstore.New()
	store := open(t, inner, cipher("key1"))
	one, two := create(t, inner, "/s/1", "plain"), create(t, inner, "/s/2", "plain")
	in, err := store.Commit(t.Context(), storage.Change{Key: "/s/1", Value: []byte("new")})
	if !errors.Is(err, storage.ErrExists) || in.Revision != one.Revision || !errors.Is(in.Damage, storage.ErrDamaged) {
		t.Errorf("create over a damaged record: %v, error %v", in, err)
	}
	_, err = store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: "/s/1", Previous: 99})
	var conflict *storage.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(conflict.Current.Damage, storage.ErrDamaged) || conflict.Current.Value != nil {
		t.Errorf("conflict with a damaged record: %v", err)
	}
	update(t, store, one, []byte("new"))
	reads(t, store, "/s/1", "new", false)
	gone, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: "/s/2", Previous: two.Revision})
	if err != nil || !errors.Is(gone.Damage, storage.ErrDamaged) {
		t.Errorf("delete of a damaged record: %v, error %v", gone, err)
	}
	if _, err := store.Get(t.Context(), "/s/2", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

// The identity does not write what would read as sealed.
func TestLookalike(t *testing.T) {
	store := open(t, memstore.New(), cipher("key1"))
	value := []byte("k8s:enc:aesgcm:v1:key1:")
	if _, err := store.Commit(t.Context(), storage.Change{Key: "/none/a", Value: value}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a value that looks encrypted, unencrypted: error %v", err)
	}
	create(t, store, "/s/a", string(value))
	reads(t, store, "/s/a", string(value), false)
}

func TestNewRefuses(t *testing.T) {
	rule := func(prefix storage.Key, ciphers ...encrypted.Cipher) encrypted.Rule {
		return encrypted.Rule{Prefix: prefix, Ciphers: ciphers}
	}
	secret := encrypted.Cipher{Name: "key1", Key: []byte("a secret of 26 bytes, hush")}
	for want, c := range map[string]encrypted.Config{
		"Store is required":       {},
		"no ciphers":              {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/")}},
		"a key of 26 bytes":       {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", secret)}},
		"may not be empty or":     {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", encrypted.Cipher{Name: "a:b", Key: cipher("1").Key})}},
		"without a key":           {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", encrypted.Cipher{Name: "a"})}},
		"aesgcm key1 twice":       {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", cipher("key1"), cipher("key1"))}},
		"identity twice":          {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", identity, identity)}},
		`no effect after the one`: {Store: memstore.New(), Rules: []encrypted.Rule{rule("/s/", identity), rule("/s/a/", identity)}},
	} {
		if _, err := encrypted.New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if said := fmt.Sprintf(format, rule("/s/", secret)); strings.Contains(said, "hush") || strings.Contains(said, "97 32") {
			t.Errorf("%s prints a key: %s", format, said)
		}
	}
}
