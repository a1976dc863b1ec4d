package nodeimages_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/examples/cluster/nodeimages"
)

func Example() {
	dir, err := os.MkdirTemp("", "cluster")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := nodeimages.Command(dir)
	c.SetArgs([]string{"list"})
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.ExecuteContext(context.Background())
	fmt.Println(strings.Replace(err.Error(), dir, "DIR", 1))
	// Output: image list: no cluster is running with the data directory DIR; start it, or name another one with --data-dir
}

// imageFile writes an archive with one image, which has a name if name is not empty, and returns its path.
func imageFile(t *testing.T, name string) string {
	t.Helper()
	tags := "null"
	if name != "" {
		tags = `["` + name + `"]`
	}
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for path, text := range map[string]string{
		"config.json":   `{"os": "linux", "architecture": "` + runtime.GOARCH + `"}`,
		"manifest.json": `[{"Config": "config.json", "RepoTags": ` + tags + `}]`,
	} {
		err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text))})
		if _, written := io.WriteString(w, text); errors.Join(err, written) != nil {
			t.Fatal(err, written)
		}
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := errors.Join(w.Close(), os.WriteFile(path, data.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestErrors: one clear line for what keeps a command from its effect.
func TestErrors(t *testing.T) {
	// open returns a data directory that is in use.
	open := func() (string, nodeimages.Records) {
		dir, err := datadir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		records, err := nodeimages.NewRecords(dir.Path())
		if err != nil {
			t.Fatal(err)
		}
		return dir.Path(), records
	}
	stopped := t.TempDir()
	dir, err := datadir.Open(stopped)
	if err != nil {
		t.Fatal(err)
	}
	left, err := nodeimages.NewRecords(stopped)
	if err := errors.Join(err, left.Add("node-1", nodeimages.Containerd, "/run/none.sock"), dir.Close()); err != nil {
		t.Fatal(err)
	}
	control, _ := open()
	simulated, records := open()
	err1 := records.Add("node-1", nodeimages.Simulated, "")
	off, records := open()
	err2 := records.Add("node-7", nodeimages.Machine, t.TempDir())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	file, unnamed := imageFile(t, "hello:1"), imageFile(t, "")
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"no such file", []string{"load", "/no/image.tar", "--data-dir", simulated}, "image load: /no/image.tar: no such file or directory"},
		{"no name", []string{"load", unnamed, "--data-dir", simulated}, "give one with --name"},
		{"bad name", []string{"load", unnamed, "--name", "Hello", "--data-dir", simulated}, `"Hello": invalid reference format: repository name (library/Hello) must be lowercase`},
		{"one name for two files", []string{"load", file, file, "--name", "x", "--data-dir", simulated}, "--name is for one file"},
		{"never started", []string{"load", file, "--data-dir", t.TempDir()}, "no cluster is running"},
		{"stopped", []string{"load", file, "--data-dir", stopped}, "no cluster is running"},
		{"a control plane", []string{"load", file, "--data-dir", control}, "has no nodes here"},
		{"simulated", []string{"load", file, "--data-dir", simulated}, "simulates its containers"},
		{"list of simulated", []string{"list", "--data-dir", simulated}, "simulates its containers"},
		{"remove of simulated", []string{"remove", "hello:1", "--data-dir", simulated}, "simulates its containers"},
		{"remove of a bad name", []string{"remove", "hello:", "--data-dir", simulated}, `"hello:": invalid reference format`},
		{"a machine that is off", []string{"list", "--data-dir", off}, "the machine node-7 is off"},
	} {
		c := nodeimages.Command("unused")
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs(test.arguments)
		var out strings.Builder
		c.SetOut(&out)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: image %q: error %v, want one line with %q", test.name, test.arguments, err, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: image %q prints %q, want nothing", test.name, test.arguments, &out)
		}
	}
}
