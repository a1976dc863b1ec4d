package objectstore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/spf13/pflag"
)

func parse(t *testing.T, arguments ...string) *Options {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o := AddFlags(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCheck(t *testing.T) {
	for arguments, want := range map[string]string{
		"":                        "",
		"--storage=memory":        "",
		"--etcd-servers=http://e": "",
		"--storage=disk":          `--storage must be one of [etcd memory], not "disk"`,
		"--storage=memory --etcd-servers=http://e": "--etcd-servers and --storage memory exclude each other",
		"--etcd-certfile=c":                        "--etcd-certfile and --etcd-keyfile go together",
		"--etcd-keyfile=c":                         "--etcd-certfile and --etcd-keyfile go together",
	} {
		got := ""
		if err := parse(t, strings.Fields(arguments)...).Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}

// open opens the store of a data directory until the function that it returns is called.
func open(t *testing.T, path string, arguments ...string) (Opened, func()) {
	t.Helper()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	opened, err := Open(t.Context(), Config{Options: parse(t, arguments...), Dir: dir, Stack: s, Log: testr.New(t)})
	if err != nil {
		t.Fatal(errors.Join(err, s.Stop(), dir.Close()))
	}
	return opened, func() {
		if err := errors.Join(s.Stop(), dir.Close()); err != nil {
			t.Error(err)
		}
	}
}

// run runs the command with arguments, and returns what it writes.
func run(ctx context.Context, arguments ...string) (string, error) {
	var out bytes.Buffer
	c := SnapshotCommand("unused")
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(arguments)
	c.SetOut(&out)
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

// TestSnapshot saves the etcd of a directory while it is open and when it is closed. What is restored has the same
// objects.
func TestSnapshot(t *testing.T) {
	const key = storage.Key("/registry/one")
	path, files := t.TempDir(), t.TempDir()
	opened, closeIt := open(t, path)
	if _, err := opened.Store.Commit(t.Context(), storage.Change{Op: storage.Create, Key: key, Value: []byte("value")}); err != nil {
		t.Fatal(err)
	}
	for _, check := range opened.Checks {
		if err := check.Check(t.Context()); err != nil {
			t.Errorf("check %s: %v", check.Name, err)
		}
	}
	hot, cold := filepath.Join(files, "hot.db"), filepath.Join(files, "cold.db")
	if _, err := run(t.Context(), "save", hot, "--data-dir", path); err != nil {
		t.Fatal(err)
	}
	closeIt()
	if _, err := run(t.Context(), "save", cold, "--data-dir", path); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{hot, cold} {
		fresh := t.TempDir()
		if out, err := run(t.Context(), "restore", file, "--data-dir", fresh); err != nil || !strings.HasPrefix(out, "Restored revision ") {
			t.Fatalf("restore says %q: %v", out, err)
		}
		restored, closeIt := open(t, fresh)
		record, err := restored.Store.Get(t.Context(), key, 0)
		if err != nil || string(record.Value) != "value" {
			t.Errorf("%s has %q: %v", file, record.Value, err)
		}
		closeIt()
	}
}

// TestOpenRefuses: a file of keys that cannot be read is found out before an etcd makes its files.
func TestOpenRefuses(t *testing.T) {
	path := t.TempDir()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := stack.New()
	_, err = Open(t.Context(), Config{Options: parse(t, "--encryption-provider-config", "/no/keys.yaml"), Dir: dir, Stack: s})
	if err == nil || !strings.HasPrefix(err.Error(), "--encryption-provider-config: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "etcd")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an etcd: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestSnapshotCommandRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, arguments := range [][]string{
		{"save", none, "--data-dir", none},
		{"status", none},
		{"restore", none, "--data-dir", none},
		{"save"},
	} {
		if _, err := run(t.Context(), arguments...); err == nil {
			t.Errorf("cluster snapshot %v succeeded", arguments)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a snapshot that was not saved has left a file")
	}
}
