package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/offline"
)

func Example() {
	images, err := offline.New(offline.Config{Cache: "/var/cache/planekit"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.HasPrefix(images.URL(), "http://127.0.0.1:"))
	// Output: true
}

func start(t *testing.T, cache string) *offline.Images {
	t.Helper()
	images, err := offline.New(offline.Config{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- images.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return images
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Minute}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, body
}

// pull fetches the manifest and every blob it names, and returns their sizes.
func pull(t *testing.T, registry, repository, tag string) int {
	t.Helper()
	code, body := get(t, registry+"/v2/"+repository+"/manifests/"+tag)
	if code != http.StatusOK {
		t.Fatalf("GET the manifest of %s:%s = %d %s, want 200", repository, tag, code, body)
	}
	type blob struct {
		Digest string
		Size   int
	}
	var manifest struct {
		Config blob
		Layers []blob
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, b := range append(manifest.Layers, manifest.Config) {
		code, body := get(t, registry+"/v2/"+repository+"/blobs/"+b.Digest)
		if code != http.StatusOK || len(body) != b.Size {
			t.Errorf("%s: blob %s: %d, %d bytes, want %d", repository, b.Digest, code, len(body), b.Size)
		}
		total += len(body)
	}
	return total
}

func TestPause(t *testing.T) {
	images := start(t, t.TempDir())
	for _, tag := range []string{"3.5", "3.6", "3.8", "3.10", "3.10.1", "3.10.2"} {
		if size := pull(t, images.URL(), "pause", tag); size > 2000 {
			t.Errorf("pause:%s takes %d bytes, want at most 2000", tag, size)
		}
	}
}

// TestResume: a pull that was cut short goes on where it ended.
func TestResume(t *testing.T) {
	images := start(t, t.TempDir())
	_, manifest := get(t, images.URL()+"/v2/pause/manifests/latest")
	digest := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(string(manifest))
	url := images.URL() + "/v2/pause/blobs/" + digest
	_, whole := get(t, url)
	for given, want := range map[string]string{
		"bytes=7-":  string(whole[7:]),
		"bytes=7-9": string(whole[7:10]),
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Range", given)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusPartialContent || err != nil || string(rest) != want {
			t.Errorf("%s: %d, %q, %v; want %q", given, response.StatusCode, rest, err, want)
		}
	}
}

func TestDistributionImages(t *testing.T) {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: this is not Debian or Ubuntu", tool)
		}
	}
	cache := t.TempDir()
	var images *offline.Images
	for range 2 { // the second time from the cache
		images = start(t, cache)
		for _, repository := range []string{"library/nginx", "library/busybox"} {
			if size := pull(t, images.URL(), repository, "latest"); size < 500_000 {
				t.Errorf("%s has only %d bytes", repository, size)
			}
		}
	}
	runPrograms(t, images.URL())
}

func TestWhatIsNotThere(t *testing.T) {
	images := start(t, t.TempDir())
	for path, want := range map[string]int{
		"/v2/":                               http.StatusOK,
		"/v2/library/redis/manifests/latest": http.StatusNotFound,
		"/v2/pause/manifests/0.1":            http.StatusNotFound,
		"/v2/pause/blobs/sha256:" + strings.Repeat("0", 64): http.StatusNotFound,
	} {
		if code, body := get(t, images.URL()+path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	answer, err := http.Post(images.URL()+"/v2/pause/blobs/uploads/", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a push was answered with %d", answer.StatusCode)
	}
}
