package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// childDir names the data directory to the process that is to be killed.
const childDir = "PLANEKIT_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Println("child:", child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child writes records until it is killed, and prints the key of each once the
// store has acknowledged it.
func child(dir string) error {
	server, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(context.Background()) }()
	select {
	case <-server.Ready():
	case err := <-done:
		return err
	}
	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		key := storage.Key(fmt.Sprintf("/acknowledged/%d", i))
		if _, err := store.Commit(context.Background(), storage.Change{Key: key, Value: []byte(key)}); err != nil {
			return err
		}
		fmt.Println(key)
	}
}

// spawn starts a child on dir.
func spawn(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(binary)
	process.Env = append(os.Environ(), childDir+"="+dir)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	return process, bufio.NewScanner(out)
}

// What a process acknowledged before it was killed is there for the next one.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		process, lines := spawn(t, dir)
		var acknowledged []storage.Key
		for lines.Scan() {
			key := lines.Text()
			if !strings.HasPrefix(key, "/acknowledged/") {
				t.Fatal(key)
			}
			if acknowledged = append(acknowledged, storage.Key(key)); len(acknowledged) == 300 {
				if err := process.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var exit *exec.ExitError
		if err := process.Wait(); !errors.As(err, &exit) || len(acknowledged) < 300 {
			t.Fatalf("the child ended after %d records: %v", len(acknowledged), err)
		}
		server := start(t, embedded.Config{Dir: dir})
		store := server.store(t)
		for _, key := range acknowledged {
			r, err := store.Get(t.Context(), key, 0)
			if err != nil || string(r.Value) != string(key) {
				t.Fatalf("%q after a kill: %q, error %v", key, r.Value, err)
			}
		}
		clear(t, store)
		server.stop(t)
	}
}

// clear removes everything, so that the next child can create it again.
func clear(t *testing.T, store storage.Store) {
	t.Helper()
	page, err := store.List(t.Context(), "/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		if string(r.Value) != string(r.Key) {
			t.Errorf("half a record: %q=%q", r.Key, r.Value)
		}
		_, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: r.Key, Previous: r.Revision})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A second process fails with ErrLocked at once instead of waiting.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	server := start(t, embedded.Config{Dir: dir})
	defer server.stop(t)
	process, lines := spawn(t, dir)
	lines.Scan()
	if said := lines.Text(); !strings.Contains(said, embedded.ErrLocked.Error()) || !strings.Contains(said, dir) {
		t.Errorf("the second process said %q", said)
	}
	if err := process.Wait(); err == nil {
		t.Error("the second process succeeded")
	}
}
