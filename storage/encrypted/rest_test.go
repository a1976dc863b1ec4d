package encrypted_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// Nothing that etcd writes to disk holds a sealed value in plain: neither the
// database nor the log. That of another key is there, so the test can see.
func TestAtRest(t *testing.T) {
	const hidden, shown = "the secret is swordfish", "the weather is fine"
	dir := t.TempDir()
	server, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	defer cancel()
	select {
	case <-server.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	inner, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := encrypted.Parse([]byte(configuration), encrypted.Layout("/registry"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := encrypted.New(encrypted.Config{Store: inner, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	r := create(t, store, "/registry/core/secrets/default/a", hidden)
	create(t, store, "/registry/core/events/default/a", shown)
	r = update(t, store, r, []byte(hidden+" again"))
	if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: r.Key, Previous: r.Revision}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{} // files that hold the text
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range []string{hidden, shown} {
			if bytes.Contains(data, []byte(text)) {
				seen[text]++
			}
		}
		return err
	})
	if err != nil || seen[shown] == 0 || seen[hidden] > 0 {
		t.Errorf("%v, error %v", seen, err)
	}
}
