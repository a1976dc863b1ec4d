package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stream is an open watch.
type stream struct {
	t      testing.TB
	lines  *bufio.Scanner
	header http.Header
	close  func()
}

type event struct {
	Type   string
	Object json.RawMessage
}

func (a *api) watch(path string, headers ...string) *stream {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		a.t.Fatalf("watch: %d", response.StatusCode)
	}
	s := &stream{t: a.t, lines: bufio.NewScanner(response.Body), header: response.Header}
	s.lines.Buffer(nil, 1<<20)
	s.close = func() { response.Body.Close(); cancel() }
	a.t.Cleanup(s.close)
	return s
}

// next returns the next event, nil at the end of the stream.
func (s *stream) next() *event {
	s.t.Helper()
	if !s.lines.Scan() {
		return nil
	}
	e := &event{}
	if err := json.Unmarshal(s.lines.Bytes(), e); err != nil {
		s.t.Fatalf("%v in %s", err, s.lines.Bytes())
	}
	return e
}

// want reads an event for each word, such as "ADDED/web".
func (s *stream) want(words ...string) *corev1.ConfigMap {
	s.t.Helper()
	var last *corev1.ConfigMap
	for _, word := range words {
		e := s.next()
		if e == nil {
			s.t.Fatalf("watch ended, want %s", word)
		}
		last = &corev1.ConfigMap{}
		if err := json.Unmarshal(e.Object, last); err != nil {
			s.t.Fatal(err)
		}
		if got := e.Type + "/" + last.Name; got != word {
			s.t.Fatalf("got %s %s, want %s", got, e.Object, word)
		}
	}
	return last
}

func TestWatch(t *testing.T) {
	a := start(t)
	old := into[corev1.ConfigMap](t, a.create(configPath, configMap("a", "")))
	fromNow := a.watch(configPath + "?watch=true")
	fromOld := a.watch(configPath + "?watch=1&resourceVersion=" + old.ResourceVersion)
	zero := a.watch("/api/v1/configmaps?watch=true&resourceVersion=0")
	other := a.watch("/api/v1/namespaces/other/configmaps?watch=true")
	changed := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/a", configMap("a", `,"data":{"k":"v"}`)), 200, ""))
	a.create("/api/v1/namespaces/other/configmaps", configMap("b", ""))
	a.want(a.do("DELETE", configPath+"/a", ""), 200, "")
	fromNow.want("ADDED/a", "MODIFIED/a")
	gone := fromNow.want("DELETED/a")
	if gone.Data["k"] != "v" || gone.Kind != "ConfigMap" || gone.ResourceVersion <= changed.ResourceVersion {
		t.Errorf("deleted as %+v", gone)
	}
	fromOld.want("MODIFIED/a", "DELETED/a")
	zero.want("ADDED/a", "MODIFIED/a", "ADDED/b", "DELETED/a")
	other.want("ADDED/b")
	if got := fromNow.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
}

func TestWatchSelection(t *testing.T) {
	a := start(t)
	a.create(configPath, labelled("a", "yes"))
	s := a.watch(configPath + "?watch=true&labelSelector=l=yes")
	one := a.watch(configPath + "?watch=true&fieldSelector=metadata.name=a")
	a.create(configPath, labelled("ab", "no"))
	leaves := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/a", labelled("a", "no")), 200, ""))
	a.want(a.do("PUT", configPath+"/ab", labelled("ab", "yes")), 200, "")
	a.want(a.do("DELETE", configPath+"/a", ""), 200, "")
	a.want(a.do("DELETE", configPath+"/ab", ""), 200, "")
	s.want("ADDED/a")
	left := s.want("DELETED/a")
	if left.Labels["l"] != "yes" || left.ResourceVersion != leaves.ResourceVersion {
		t.Errorf("an object that leaves is shown as %+v", left.ObjectMeta)
	}
	s.want("ADDED/ab", "DELETED/ab")
	one.want("ADDED/a", "MODIFIED/a", "DELETED/a")
}

func TestWatchList(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	s := a.watch(configPath + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	s.want("ADDED/a")
	mark := s.want("BOOKMARK/")
	if mark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || mark.ResourceVersion == "" || mark.Kind != "ConfigMap" {
		t.Errorf("bookmark %+v", mark)
	}
	a.create(configPath, configMap("b", ""))
	s.want("ADDED/b")
	quiet := a.watch(configPath + "?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	a.create(configPath, configMap("c", ""))
	quiet.want("ADDED/c")
	a.want(a.do("GET", configPath+"?watch=true&sendInitialEvents=true", ""), 422, "NotOlderThan")
	a.want(a.do("GET", configPath+"?watch=true&resourceVersionMatch=NotOlderThan", ""), 422, "sendInitialEvents")
	a.want(a.do("GET", configPath+"?watch=true", "", "Accept: application/yaml"), 406, "")
}

func TestWatchTimesOutWithBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		s := a.watch(configPath + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&labelSelector=none")
		made := into[corev1.ConfigMap](t, a.create(configPath, configMap("a", "")))
		if mark := s.want("BOOKMARK/"); mark.ResourceVersion != made.ResourceVersion {
			t.Errorf("bookmark at %s, want %s", mark.ResourceVersion, made.ResourceVersion)
		}
		if e := s.next(); e != nil {
			t.Errorf("after the time: %+v", e)
		}
	})
}

func TestWatchCompacted(t *testing.T) {
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = memstore.NewHistory(2) }))
	for i := range 10 {
		a.create(configPath, configMap(fmt.Sprint("c", i), ""))
	}
	got := a.do("GET", configPath+"?watch=true&resourceVersion=1", "")
	if !strings.Contains(got.body, `"reason":"Expired"`) || !strings.Contains(got.body, `"code":410`) {
		t.Errorf("a watch from resourceVersion 1 = %d %s, want an event of reason Expired and code 410", got.code, got.body)
	}
}

func TestWatchShapes(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	table := a.watch(configPath+"?watch=true", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	a.create(configPath, configMap("b", ""))
	for i, name := range []string{"a", "b"} {
		got := &metav1.Table{}
		if err := json.Unmarshal(table.next().Object, got); err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != 1 || got.Rows[0].Cells[0] != name || (len(got.ColumnDefinitions) > 0) != (i == 0) || got.ResourceVersion == "" {
			t.Errorf("table %d: %+v", i, got)
		}
	}
	meta := a.watch(configPath+"?watch=true", "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if got := meta.want("ADDED/a"); got.Kind != "PartialObjectMetadata" || got.APIVersion != "meta.k8s.io/v1" {
		t.Errorf("metadata only: %+v", got)
	}
}

// TestWatchIsGapless follows concurrent writers from the first revision and in
// several hops, and must see every change once, in order.
func TestWatchIsGapless(t *testing.T) {
	const writers, writes = 8, 25
	a := start(t)
	whole := a.watch(configPath + "?watch=true")
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			name := fmt.Sprint("w", w)
			a.create(configPath, configMap(name, ""))
			for i := range writes {
				a.want(a.do("PUT", configPath+"/"+name, configMap(name, fmt.Sprintf(`,"data":{"n":"%d"}`, i))), 200, "")
			}
			a.want(a.do("DELETE", configPath+"/"+name, ""), 200, "")
		})
	}
	const total = writers * (writes + 2)
	seen := read(whole, total)
	group.Wait()
	var hops []string
	_, from, _ := strings.Cut(seen[0], "@")
	first, err := strconv.Atoi(from)
	if err != nil {
		t.Fatal(err)
	}
	for len(hops) < total-1 {
		hop := a.watch(configPath + "?watch=true&resourceVersion=" + from)
		part := read(hop, min(7, total-1-len(hops)))
		hop.close()
		hops = append(hops, part...)
		_, from, _ = strings.Cut(part[len(part)-1], "@")
	}
	if got, want := strings.Join(hops, "\n"), strings.Join(seen[1:], "\n"); got != want {
		t.Errorf("hops saw\n%s\nthe whole saw\n%s", got, want)
	}
	for i, line := range seen {
		if want := fmt.Sprint("@", first+i); !strings.HasSuffix(line, want) {
			t.Fatalf("change %d is %s, want %s", i+1, line, want)
		}
	}
}

func read(s *stream, n int) []string {
	s.t.Helper()
	var lines []string
	for range n {
		e := s.next()
		if e == nil {
			s.t.Fatalf("watch ended after %d of %d", len(lines), n)
		}
		obj := &corev1.ConfigMap{}
		if err := json.Unmarshal(e.Object, obj); err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s@%s", e.Type, obj.Name, obj.Data["n"], obj.ResourceVersion))
	}
	return lines
}

// TestOldWatchPaths: the paths of the first watches lead to watches, with the names of objects too.
func TestOldWatchPaths(t *testing.T) {
	var asked []string
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, r authz.Attributes) (authz.Decision, string, error) {
			if r.User.Name == "jane" && r.Verb != "create" {
				asked = append(asked, fmt.Sprintf("%s %s %q in %q", r.Verb, r.Resource, r.Name, r.Namespace))
			}
			return authz.Allow, "", nil
		})))
	a := &api{t, s.As("jane"), "http://memory"}
	a.create(configPath, configMap("a", ""))
	a.create(configPath, configMap("b", ""))
	a.create("/api/v1/namespaces/kube-system/configmaps", configMap("a", ""))
	for _, test := range []struct {
		path, asked string
		events      []string
	}{
		{"configmaps", `watch configmaps "" in ""`, []string{"ADDED/a", "ADDED/b", "ADDED/a"}},
		{"namespaces/default/configmaps", `watch configmaps "" in "default"`, []string{"ADDED/a", "ADDED/b"}},
		{"namespaces/default/configmaps/b", `watch configmaps "b" in "default"`, []string{"ADDED/b"}},
		{"namespaces/default/configmaps/b?fieldSelector=metadata.name%3Db,metadata.namespace%3Ddefault", `watch configmaps "b" in "default"`, []string{"ADDED/b"}},
		{"namespaces/kube-system/configmaps/a", `watch configmaps "a" in "kube-system"`, []string{"ADDED/a"}},
	} {
		asked = nil
		a.watch("/api/v1/watch/" + test.path).want(test.events...)
		if want := []string{test.asked}; !slices.Equal(asked, want) {
			t.Errorf("GET /api/v1/watch/%s is authorized as %q, want %q", test.path, asked, want)
		}
	}
	a.create(configPath, configMap("c", ""))
	named := a.watch("/api/v1/watch/namespaces/default/configmaps/c")
	named.want("ADDED/c")
	a.create(configPath, configMap("d", ""))
	a.want(a.do("DELETE", configPath+"/c", ""), 200, "")
	named.want("DELETED/c")
	a.want(a.do("GET", "/api/v1/watch/namespaces/default/configmaps/c/status", ""), 404, "")
	a.want(a.do("GET", "/api/v1/watch/namespaces/default/configmaps/c?fieldSelector=metadata.name%3Dd", ""), 400, "doesn't match requested name")
	a.want(a.do("POST", "/api/v1/watch/namespaces/default/configmaps", configMap("e", "")), 405, "does not allow this method")
}
