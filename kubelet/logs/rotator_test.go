package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// writer is a runtime with one container, which writes numbered lines to its log.
type writer struct {
	t      *testing.T
	path   string
	file   *os.File
	lines  int
	refuse error // to reopen
	gone   bool
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "ns_pod_uid", "web")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, path: filepath.Join(directory, "0.log")}
	w.open()
	t.Cleanup(func() { w.file.Close() })
	return w
}

func (w *writer) root() string { return filepath.Dir(filepath.Dir(filepath.Dir(w.path))) }

func (w *writer) open() {
	if w.file != nil {
		w.file.Close()
	}
	var err error
	if w.file, err = os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640); err != nil {
		w.t.Fatal(err)
	}
}

// write writes n lines of 10 bytes.
func (w *writer) write(n int) {
	for range n {
		if _, err := fmt.Fprintf(w.file, "%09d\n", w.lines); err != nil {
			w.t.Fatal(err)
		}
		w.lines++
	}
}

func (w *writer) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "one"}}}, nil
}

func (w *writer) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if w.gone {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: "one", LogPath: w.path}}, nil
}

func (w *writer) ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	if w.refuse != nil {
		return nil, w.refuse
	}
	w.open()
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

// files returns the names in the log's directory.
func (w *writer) files() []string {
	entries, err := os.ReadDir(filepath.Dir(w.path))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// check fails unless the files hold the newest lines, each once and in order, and at least the
// minimum of them.
func (w *writer) check(least int) {
	w.t.Helper()
	older, err := (&rotation{path: w.path}).older()
	if err != nil {
		w.t.Fatal(err)
	}
	var text strings.Builder
	for _, path := range append(older, w.path) {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) && path == w.path {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		in := io.Reader(file)
		if strings.HasSuffix(path, compressed) {
			if in, err = gzip.NewReader(file); err != nil {
				w.t.Fatalf("%s: %v", path, err)
			}
		}
		if _, err := io.Copy(&text, in); err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		file.Close()
	}
	lines := strings.Fields(text.String())
	if len(lines) < min(least, w.lines) {
		w.t.Fatalf("%d of %d lines are left in %v", len(lines), w.lines, w.files())
	}
	for i, line := range lines {
		if want := fmt.Sprintf("%09d", w.lines-len(lines)+i); line != want {
			w.t.Fatalf("line %d of %d is %s, want %s, in %v", i, len(lines), line, want, w.files())
		}
	}
}

func newRotator(t *testing.T, w *writer) *Rotator {
	t.Helper()
	r, err := New(Config{Runtime: w, Root: w.root(), MaxSize: 1000, MaxFiles: 4, Log: testr.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		r := newRotator(t, w)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		w.write(99)
		time.Sleep(DefaultInterval + time.Second)
		if names := w.files(); len(names) != 1 {
			t.Errorf("a log that is small enough was rotated: %v", names)
		}
		for range 10 {
			w.write(100)
			time.Sleep(DefaultInterval)
			synctest.Wait()
		}
		// The log, the file that it was last, and two compressed ones.
		want := []string{"0.log", "0.log.20000101-000130.gz", "0.log.20000101-000140.gz", "0.log.20000101-000150"}
		if got := w.files(); !slices.Equal(got, want) {
			t.Errorf("files %v, want %v", got, want)
		}
		w.check(300)
		stop()
		<-ended
	})
}

// TestRefusal: a runtime that does not open the log again keeps writing to the same file.
func TestRefusal(t *testing.T) {
	w := newWriter(t)
	r := newRotator(t, w)
	w.write(200)
	w.refuse = errors.New("not now")
	if err := r.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Error(err)
	}
	if got := w.files(); !slices.Equal(got, []string{"0.log"}) {
		t.Errorf("files %v", got)
	}
	w.write(10)
	w.refuse, w.gone = nil, true
	if err := r.Look(t.Context()); err != nil {
		t.Errorf("a container that was removed: %v", err)
	}
	w.gone = false
	if err := r.Look(t.Context()); err != nil {
		t.Error(err)
	}
	w.check(210)
}

// TestForeignFiles: files that are not of this log, and logs outside of the root, are left alone.
func TestForeignFiles(t *testing.T) {
	w := newWriter(t)
	r := newRotator(t, w)
	for _, name := range []string{"10.log", "0.log.old", "0.log.20000101-000000.txt", "1.log.20000101-000000"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(w.path), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.write(100)
	if err := r.Look(t.Context()); err != nil || len(w.files()) != 6 {
		t.Errorf("Look: %v, the files are %v; want all 6 left", err, w.files())
	}
	if err := Remove(w.path); err != nil {
		t.Fatal(err)
	}
	if got := w.files(); !slices.Equal(got, []string{"1.log.20000101-000000", "10.log"}) {
		t.Errorf("after the removal: %v", got)
	}
	if err := Remove(filepath.Join(t.TempDir(), "none", "0.log")); err != nil {
		t.Errorf("remove a log that is not there: %v", err)
	}
	w.open()
	w.write(200)
	r.config.Root = t.TempDir()
	if err := r.Look(t.Context()); err != nil || slices.ContainsFunc(w.files(), func(n string) bool { return strings.HasPrefix(n, "0.log.") }) {
		t.Errorf("a log elsewhere: %v %v", w.files(), err)
	}
}

type kill struct{}

// TestKills interrupts rotations at random steps: no line is lost but those of the files that were
// the oldest, none is there twice, and the files stay bounded.
func TestKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(10) {
		synctest.Test(t, func(t *testing.T) { killRotations(t, rand.New(rand.NewPCG(seed, i))) })
	}
}

func killRotations(t *testing.T, random *rand.Rand) {
	w := newWriter(t)
	r := newRotator(t, w)
	r.config.Log = logr.Discard()
	left := 0
	r.before = func(string) {
		if left--; left == 0 {
			panic(kill{})
		}
	}
	look := func() (killed bool) {
		defer func() {
			if p := recover(); p != nil {
				killed = true
				if _, ok := p.(kill); !ok {
					panic(p)
				}
			}
		}()
		if err := r.container(t.Context(), "one"); err != nil && w.refuse == nil {
			t.Fatal(err)
		}
		return false
	}
	for range 40 {
		w.write(random.IntN(150))
		w.refuse = nil
		if random.IntN(8) == 0 {
			w.refuse = errors.New("not now")
		}
		left = random.IntN(12)
		look()
		if random.IntN(2) == 0 {
			time.Sleep(DefaultInterval)
		}
		w.check(200)
	}
	left, w.refuse = 0, nil
	for range 6 {
		w.write(100)
		time.Sleep(DefaultInterval)
		look()
	}
	if n := len(w.files()); n != r.config.MaxFiles {
		t.Errorf("%v, want %d files", w.files(), r.config.MaxFiles)
	}
	w.check(300)
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Runtime: &writer{}, Root: "/var/log/pods"}
	for want, spoil := range map[string]func(*Config){
		"Runtime": func(c *Config) { c.Runtime = nil }, "Root": func(c *Config) { c.Root = "logs" },
		"MaxSize": func(c *Config) { c.MaxSize = -1 }, "MaxFiles": func(c *Config) { c.MaxFiles = 1 },
		"Interval": func(c *Config) { c.Interval = -1 }, "Workers": func(c *Config) { c.Workers = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bad %s: %v", want, err)
		}
	}
}
