package offline_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runPrograms runs programs of the distribution's images, which a registry serves, in their own root file systems.
func runPrograms(t *testing.T, registry string) {
	if os.Geteuid() != 0 {
		t.Log("no program of the images is run: chroot needs root")
		return
	}
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-hangs
		}
		_, _ = io.WriteString(w, "served "+r.URL.Path)
	}))
	defer server.Close()
	defer close(hangs)

	for _, test := range []struct {
		image string
		runs  [][]string // a command, and behind it its exit code and a part of its output
	}{
		{"library/busybox", [][]string{
			{"wget -q -T 5 -O - URL/a", "0", "served /a"},
			{"wget -qT5 -O- URL/b", "0", "served /b"},
			{"wget -q --timeout=5 -O - -- URL/c", "0", "served /c"},
			{"wget -q --header 'X: -T 1' -O - URL/d", "0", "served /d"},
			{"wget -T 1 -q -O - URL/slow", "1", "wget: download timed out"},
			{"wget -T", "1", "requires an argument"},
			{"wget -q -T 5 -O - http://127.0.0.1:1/", "1", "refused"},
		}},
		{"library/nginx", [][]string{
			{"cat /etc/nginx/nginx.conf", "0", "include /etc/nginx/conf.d/*.conf;"},
			{"cat /etc/nginx/conf.d/default.conf", "0", "listen 80 default_server;"},
			{"nginx -v", "0", "nginx version"},
			{"wget -q -T 5 -O - URL/e", "0", "served /e"},
		}},
	} {
		t.Run(test.image, func(t *testing.T) {
			root := t.TempDir()
			extract(t, layerOf(t, registry, test.image), root)
			for _, run := range test.runs {
				command := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(run[0], "URL", server.URL))
				command.Dir, command.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/bin"}
				command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
				out, err := command.CombinedOutput()
				code := "0"
				var failure *exec.ExitError
				if errors.As(err, &failure) {
					code = string(rune('0' + failure.ExitCode()))
				} else if err != nil {
					t.Fatalf("running %s = %v, want nil", run[0], err)
				}
				if code != run[1] || !strings.Contains(string(out), run[2]) {
					t.Errorf("%s: %v, output %q, want exit code %s and %q", run[0], err, out, run[1], run[2])
				}
			}
		})
	}
}

// layerOf returns the only layer of an image as a tar file.
func layerOf(t *testing.T, registry, repository string) io.Reader {
	t.Helper()
	_, body := get(t, registry+"/v2/"+repository+"/manifests/latest")
	var manifest struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(body, &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("manifest of %s: %s: %v, want one layer", repository, body, err)
	}
	_, layer := get(t, registry+"/v2/"+repository+"/blobs/"+manifest.Layers[0].Digest)
	plain, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// extract writes the files of a tar file below root.
func extract(t *testing.T, data io.Reader, root string) {
	t.Helper()
	files := tar.NewReader(data)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = extractFile(header, files, filepath.Join(root, header.Name), root)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func extractFile(header *tar.Header, content io.Reader, path, root string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	case tar.TypeLink:
		return os.Link(filepath.Join(root, header.Linkname), path)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
