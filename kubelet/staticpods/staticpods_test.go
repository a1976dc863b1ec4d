package staticpods_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/staticpods"
)

const web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}\n"

// complete stands for an API server's defaults and validation.
func complete(pod *corev1.Pod) error {
	if len(pod.Spec.Containers) == 0 {
		return errors.New("spec.containers: Required value")
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return nil
}

// node is a source in a bubble, and what it has logged.
type node struct {
	*staticpods.Source
	t   *testing.T
	dir string

	mu     sync.Mutex
	logged []string // guarded by mu
}

// run runs a source of a new directory, or of c.Path, until the test ends.
func run(t *testing.T, c staticpods.Config) *node {
	t.Helper()
	n := &node{t: t, dir: c.Path}
	c.NodeName, c.Complete, c.Log = "node-1", complete, n.logger()
	s, err := staticpods.New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Source = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return n
}

func (n *node) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.logged = append(n.logged, line)
	}, funcr.Options{})
}

// said returns what was logged since the last call.
func (n *node) said() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := n.logged
	n.logged = nil
	return said
}

func (n *node) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// wait waits for the next read.
func (n *node) wait() {
	time.Sleep(staticpods.DefaultPeriod)
	synctest.Wait()
}

// check compares the names of the pods.
func (n *node) check(want ...string) {
	n.t.Helper()
	var got []string
	for pod := range n.All() {
		got = append(got, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		n.t.Errorf("the pods are %v, want %v", got, want)
	}
}

// checkSaid checks that exactly these texts were logged, one a line.
func (n *node) checkSaid(want ...string) {
	n.t.Helper()
	said := n.said()
	for i, text := range want {
		if len(said) != len(want) || !strings.Contains(said[i], text) {
			n.t.Errorf("logged %q, want %q", said, want)
			return
		}
	}
	if len(said) > len(want) {
		n.t.Errorf("logged %q", said)
	}
}

// TestPod: a static pod has the fields that a kubelet of Kubernetes gives it.
func TestPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n := run(t, staticpods.Config{Path: dir})
		select {
		case <-n.Synced():
		default:
			t.Error("not synced after the first read")
		}
		n.write("web.yaml", web)
		n.write(".web.yaml.swp", "half of a")
		n.check()
		n.wait()
		n.check("default/web-node-1")
		pod, _ := n.Get("default/web-node-1")
		if len(pod.UID) != 32 || pod.Spec.NodeName != "node-1" || pod.Status.Phase != corev1.PodPending || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			t.Errorf("the pod is %v, want a UID of 32 bytes, node-1, Pending and Always", pod)
		}
		want := map[string]string{
			"kubernetes.io/config.hash": string(pod.UID), "kubernetes.io/config.source": "file",
			"kubernetes.io/config.seen": time.Now().Format(time.RFC3339Nano),
		}
		if !maps.Equal(pod.Annotations, want) {
			t.Errorf("annotations %v, want %v", pod.Annotations, want)
		}
		if tolerations := pod.Spec.Tolerations; len(tolerations) != 1 || tolerations[0] != (corev1.Toleration{Operator: "Exists", Effect: "NoExecute"}) {
			t.Errorf("tolerations %v", tolerations)
		}

		n.wait()
		if again, _ := n.Get("default/web-node-1"); again != pod {
			t.Error("an unchanged manifest became another object")
		}
		// What clients cannot set is ignored; that is the same pod, but not the same manifest.
		n.write("web.yaml", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"shop","resourceVersion":"7","deletionTimestamp":"2026-01-01T00:00:00Z",
			"annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[{"name":"x"}]},
			"spec":{"containers":[{"name":"web","image":"nginx"}],"tolerations":[{"operator":"Exists","effect":"NoExecute"}]},"status":{"phase":"Failed"}}`)
		n.wait()
		n.check("shop/web-node-1")
		changed, _ := n.Get("shop/web-node-1")
		if changed.UID == pod.UID || changed.DeletionTimestamp != nil || changed.ResourceVersion != "" || len(changed.OwnerReferences) > 0 ||
			changed.Status.Phase != corev1.PodPending || len(changed.Spec.Tolerations) != 1 || changed.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			t.Errorf("the pod is %v, want another UID than %s, Pending, one toleration, nothing that only the API sets", changed, pod.UID)
		}
		// The same contents give the same pod after a restart, and in another file another one.
		again := run(t, staticpods.Config{Path: dir})
		if same, _ := again.Get("shop/web-node-1"); same == nil || same.UID != changed.UID {
			t.Errorf("%v after a restart, want UID %s", same, changed.UID)
		}
		if err := os.Rename(filepath.Join(dir, "web.yaml"), filepath.Join(dir, "web.json")); err != nil {
			t.Fatal(err)
		}
		n.wait()
		if moved, _ := n.Get("shop/web-node-1"); moved == nil || moved.UID == changed.UID {
			t.Errorf("%v after the file was renamed", moved)
		}
		n.checkSaid()
	})
}

// TestUIDOfManifest: a pod with a UID in its manifest can change; when it was first seen stays.
func TestUIDOfManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := run(t, staticpods.Config{Path: t.TempDir()})
		n.write("web.yaml", strings.Replace(web, "{name: web}", "{name: web, uid: abc}", 1))
		n.wait()
		first, _ := n.Get("default/web-node-1")
		n.write("web.yaml", strings.Replace(strings.Replace(web, "{name: web}", "{name: web, uid: abc}", 1), "nginx", "nginx:2", 1))
		n.wait()
		second, _ := n.Get("default/web-node-1")
		if first.UID != "abc" || second.UID != "abc" || second.Spec.Containers[0].Image != "nginx:2" ||
			second.Annotations["kubernetes.io/config.seen"] != first.Annotations["kubernetes.io/config.seen"] {
			t.Errorf("%+v\nthen %+v", first, second)
		}
	})
}

// bad holds manifests without a pod, by the error.
var bad = map[string]string{
	`no kind "" is registered`:                                             "",
	"couldn't parse as pod(":                                               "{",
	"invalid pod: it is a Service":                                         "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
	"invalid pod: it is a PodList":                                         "apiVersion: v1\nkind: PodList\nitems: []\n",
	`version "v2"`:                                                         "apiVersion: v2\nkind: Pod\n",
	"invalid pod: name is needed":                                          "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}\n",
	"metadata.name: a lowercase":                                           "apiVersion: v1\nkind: Pod\nmetadata: {name: ../../etc}\n",
	"metadata.namespace: a lowercase":                                      "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ../x}\n",
	"metadata.uid: a lowercase":                                            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: ../../x}\n",
	"spec.containers: Required value":                                      "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
	"spec.ephemeralContainers: Forbidden":                                  strings.Replace(web, "spec: {", "spec: {ephemeralContainers: [{name: e}], ", 1),
	"static pods may not reference serviceaccounts":                        strings.Replace(web, "spec: {", "spec: {serviceAccount: robot, ", 1),
	"static pods may not reference secrets":                                strings.Replace(web, "spec: {", "spec: {imagePullSecrets: [{name: s}], ", 1),
	"static pods may not reference configmaps":                             strings.Replace(web, "image: nginx", "envFrom: [{configMapRef: {name: c}}]", 1),
	"static pods may not reference resourceclaims":                         strings.Replace(web, "spec: {", "spec: {resourceClaims: [{name: c}], ", 1),
	"static pods may not reference serviceaccounts (via projected volumes": strings.Replace(web, "spec: {", "spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {}}]}}], ", 1),
	"static pods may not reference persistentvolumeclaims":                 strings.Replace(web, "spec: {", "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], ", 1),
	"unknown volume type":                                                  strings.Replace(web, "spec: {", "spec: {volumes: [{name: v}], ", 1),
	"cannot unmarshal":                                                     "apiVersion: v1\nkind: Pod\nmetadata: [1]\n",
	"aliases stand for more":                                               "a: &a " + strings.Repeat("x", 1<<16) + "\nb: [" + strings.Repeat("*a,", 1000) + "1]",
	"more than 60000 values":                                               "a:\n" + strings.Repeat("- b\n", 70_000),
	"more than 256 levels":                                                 strings.Repeat("[", 300) + strings.Repeat("]", 300),
	"too many values":                                                      `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[` + strings.Repeat("{},", 300_000) + `{}]}}`,
	"exceeded max depth":                                                   `{"kind":"Pod","apiVersion":"v1","metadata":` + strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat("}", 20_000) + "}",
	"it has more than 10485760 bytes":                                      "#" + strings.Repeat(" ", 10<<20),
}

// TestBadManifests: each is named in one line of the log and does not stop the others.
func TestBadManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := run(t, staticpods.Config{Path: t.TempDir()})
		names := slices.Sorted(maps.Keys(bad))
		var want []string
		for i, name := range names {
			n.write(fmt.Sprintf("%02d.yaml", i), bad[name])
			want = append(want, fmt.Sprintf("%02d.yaml", i))
		}
		n.write("web.yaml", web)
		n.wait()
		n.check("default/web-node-1")
		said := n.said()
		for i, name := range names {
			if len(said) != len(want) || !strings.Contains(said[i], want[i]+":") || !strings.Contains(strings.ReplaceAll(said[i], `\"`, `"`), name) {
				t.Fatalf("logged %d lines, not %d; %d is %.500q, want %s and %s", len(said), len(want), i, said[min(i, len(said)-1)], want[i], name)
			}
		}
		n.wait()
		n.checkSaid()
		// A pod whose manifest is no longer valid ends, and starts again with a valid one.
		n.write("web.yaml", web[:30])
		n.wait()
		n.check()
		n.checkSaid("web.yaml")
		n.write("web.yaml", web)
		n.wait()
		n.check("default/web-node-1")
		n.write("web.yaml", web[:30])
		n.wait()
		n.checkSaid("web.yaml") // again, because it was fine in between
	})
}

// TestFilesThatAreNone: pipes, devices, directories and links that lead nowhere.
func TestFilesThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n := run(t, staticpods.Config{Path: dir})
		elsewhere := filepath.Join(t.TempDir(), "linked")
		for _, err := range []error{
			syscall.Mkfifo(filepath.Join(dir, "a-pipe"), 0o600),
			os.Symlink("/dev/zero", filepath.Join(dir, "b-device")),
			os.Mkdir(filepath.Join(dir, "c-directory"), 0o700),
			os.Symlink("d-loop", filepath.Join(dir, "d-loop")),
			os.Symlink("nowhere", filepath.Join(dir, "e-dangling")),
			os.Symlink(elsewhere, filepath.Join(dir, "f-linked")),
			os.WriteFile(elsewhere, []byte(web), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		n.wait()
		n.check("default/web-node-1")
		n.checkSaid("a-pipe: not a directory or file", "b-device: not a directory or file", "c-directory: a directory is not read", "d-loop: too many levels")
		n.wait()
		n.checkSaid()
	})
}

// TestDirectory: one that is missing has no pods; one that cannot be read keeps them.
func TestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "manifests")
		n := run(t, staticpods.Config{Path: dir})
		n.checkSaid("no such file")
		select {
		case <-n.Synced():
		default:
			t.Error("not synced without a directory")
		}
		n.wait()
		n.checkSaid()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		n.write("web.yaml", web)
		n.wait()
		n.check("default/web-node-1")
		// A loop of links is neither missing nor a directory.
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, dir); err != nil {
			t.Fatal(err)
		}
		n.wait()
		n.wait()
		n.check("default/web-node-1")
		n.checkSaid("too many levels")
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		n.wait()
		n.wait()
		n.check()
		n.checkSaid("no such file")
	})
}

// TestOneFile: the path can be a manifest. If it becomes invalid, the pod stays, as in Kubernetes.
func TestOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "web.yaml")
		if err := os.WriteFile(path, []byte(web), 0o600); err != nil {
			t.Fatal(err)
		}
		n := run(t, staticpods.Config{Path: path})
		n.check("default/web-node-1")
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.wait()
		n.check("default/web-node-1")
		n.checkSaid("couldn't parse as pod(")
	})
}

// TestDuplicates: the first pod with a name wins.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := run(t, staticpods.Config{Path: t.TempDir()})
		n.write("b.yaml", web)
		n.write("a.yaml", strings.Replace(web, "nginx", "first", 1))
		n.wait()
		n.wait()
		n.check("default/web-node-1")
		n.checkSaid("default/web-node-1 with UID")
		if pod, _ := n.Get("default/web-node-1"); pod.Spec.Containers[0].Image != "first" {
			t.Errorf("the pod is of %s", pod.Spec.Containers[0].Image)
		}
		for _, name := range []string{"c", "d"} {
			n.write(name+".yaml", strings.Replace(web, "name: web", "uid: same, name: "+name, 1))
		}
		n.wait()
		n.check("default/c-node-1", "default/web-node-1")
		n.checkSaid("default/d-node-1 with UID same")
	})
}

// answers is a transport that serves one page.
type answers struct {
	mu      sync.Mutex
	code    int
	body    string
	err     error
	headers []http.Header
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.headers = append(a.headers, r.Header)
	if a.err != nil {
		return nil, a.err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(a.code)
	io.WriteString(w, a.body)
	return w.Result(), nil
}

func (a *answers) set(code int, body string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.code, a.body, a.err = code, body, err
}

// TestURL: a page has a pod or a list. An error of any kind keeps the pods, and is logged once.
func TestURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := &answers{err: errors.New("unreachable")}
		n := run(t, staticpods.Config{
			URL: "https://user:secret@example.com/pods?token=secret", Header: http.Header{"X-Token": {"secret"}}, Client: &http.Client{Transport: page},
		})
		select {
		case <-n.Synced():
			t.Error("synced without an answer")
		default:
		}
		n.wait()
		n.checkSaid("https://example.com/pods: unreachable")
		page.set(200, web, nil)
		n.wait()
		n.check("default/web-node-1")
		pod, _ := n.Get("default/web-node-1")
		if pod.Annotations["kubernetes.io/config.source"] != "http" || len(pod.Spec.Tolerations) > 0 {
			t.Errorf("the pod is %v, want the source http and no toleration", pod)
		}
		<-n.Synced()
		list := `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"containers":[{}]}},{"metadata":{"name":"b"},"spec":{"containers":[{}]}}]}`
		page.set(200, list, nil)
		n.wait()
		n.check("default/a-node-1", "default/b-node-1")
		for _, c := range []struct {
			code       int
			body, said string
		}{
			{404, web, "404 Not Found"}, {200, "hello", "couldn't parse"}, {200, strings.Replace(list, `[{}]`, `[]`, 1), "spec.containers: Required"},
			{200, strings.Repeat("x", 10<<20+1), "more than 10485760 bytes"}, {200, "apiVersion: v1\nkind: Service\n", "invalid pods list: it is a Service"},
		} {
			page.set(c.code, c.body, nil)
			n.wait()
			n.wait()
			n.check("default/a-node-1", "default/b-node-1")
			n.checkSaid(c.said)
		}
		page.set(200, "", nil)
		n.wait()
		n.wait()
		n.check()
		n.checkSaid("zero-length data received")
		for _, h := range page.headers {
			if h.Get("X-Token") != "secret" {
				t.Errorf("a request without the header: %v", h)
			}
		}
	})
}

// TestBoth: the pods of files and of a URL are one cache, in which files win.
func TestBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := &answers{code: 200, body: web}
		n := run(t, staticpods.Config{Path: t.TempDir(), URL: "http://example.com", Client: &http.Client{Transport: page}})
		n.check("default/web-node-1")
		fromURL, _ := n.Get("default/web-node-1")
		n.write("web.yaml", web)
		n.wait()
		n.check("default/web-node-1")
		if pod, _ := n.Get("default/web-node-1"); pod.UID == fromURL.UID || pod.Annotations["kubernetes.io/config.source"] != "file" {
			t.Errorf("the pod is %v, want the source file and another UID than %s", pod, fromURL.UID)
		}
		n.checkSaid("is ignored")
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := staticpods.New(staticpods.Config{NodeName: "A", URL: "ftp://x", Period: -1, URLPeriod: -2})
	for _, want := range []string{`NodeName "A"`, "Complete is missing", "URL is not an HTTP address", "Period -1ns is negative", "URLPeriod -2ns is negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if _, err := staticpods.New(staticpods.Config{NodeName: "a", Complete: complete}); err == nil || !strings.Contains(err.Error(), "Path and URL are missing") {
		t.Error(err)
	}
}
