package apiserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// wireKind is a kind whose objects get a default when they are decoded.
func wireKind(t testing.TB, r Resource) *servedKind {
	t.Helper()
	k, err := newKind(r, &Config{Prefix: "/registry"}, wire.NewCodec())
	if err != nil {
		t.Fatal(err)
	}
	feed, err := cache.NewFeed(cache.FeedConfig{Store: memstore.New()})
	if err == nil {
		err = k.addCache(feed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func podResource() Resource {
	return Resource{
		Version: "v1", Kind: "Pod", Plural: "pods", Namespaced: true,
		New:     func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
		Strategy: Strategy{Default: func(obj runtime.Object) {
			if p := obj.(*corev1.Pod); p.Spec.SchedulerName == "" {
				p.Spec.SchedulerName = "default-scheduler"
			}
		}},
	}
}

// randomPod has metadata of all sizes, some of it absent.
func randomPod(random *rand.Rand) *corev1.Pod {
	text := func() string { return strings.Repeat("x", random.IntN(3)*random.IntN(150)) }
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: text(), Containers: []corev1.Container{{Name: text(), Image: text()}}}}
	p.Name, p.GenerateName, p.Namespace = text(), text(), text()
	p.Generation = random.Int64N(1000)
	for range random.IntN(4) {
		p.Labels = map[string]string{text(): text() + "<&>\u2028"}
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: text()})
		p.CreationTimestamp = metav1.Unix(random.Int64N(1e9), 0)
	}
	return p
}

// TestWireIsTheCodecs compares what is put together from stored bytes with what
// the codec makes of the objects, byte for byte.
func TestWireIsTheCodecs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := wireKind(t, podResource())
	if lists := k.forms.lists(); !lists[wire.JSON] || !lists[wire.Proto] {
		t.Fatalf("lists are not their items: %v", lists)
	}
	for range 50 {
		l := &listing{revision: storage.Revision(random.Int64N(1 << 40))}
		if random.IntN(2) == 0 {
			l.next, l.remaining = "next", new(int64(7))
		}
		spliced := 0
		for n := range random.IntN(200) {
			obj := randomPod(random)
			if random.IntN(4) > 0 {
				k.Strategy.Default(obj)
				spliced++
			}
			data, err := k.encode(context.Background(), obj)
			if err != nil {
				t.Fatal(err)
			}
			revision := storage.Revision(1 + random.Int64N(1<<uint(1+random.IntN(50))))
			i, err := k.item(storage.Record{Key: storage.Key(fmt.Sprint("/registry/core/pods/", n)), Value: data, Revision: revision})
			if err != nil {
				t.Fatal(err)
			}
			if i.Object.parts.Usable() {
				spliced--
			}
			l.items = append(l.items, i)
		}
		if spliced != 0 {
			t.Fatalf("%d objects are not sent from what is stored", spliced)
		}
		compareWire(t, k, l)
	}
}

func compareWire(t *testing.T, k *servedKind, l *listing) {
	t.Helper()
	whole, err1 := k.listObject(l)
	metas, err2 := partialList(l)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, media := range []string{wire.JSON, wire.Proto} {
		compareBody(t, k, media, l, whole, k.listBody)
		compareBody(t, k, media, l, metas, k.partialBody)
		for _, i := range l.items {
			want, err := k.codec.Encode(media, i.Object.Object)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.document(nil, media, i); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("as %s: %v\n%q\nwant\n%q", media, err, got, want)
			}
		}
	}
}

// compareBody compares a list with what made puts together.
func compareBody(t *testing.T, k *servedKind, media string, l *listing, list runtime.Object, made func(string, *listing) (*pieces.Body, error)) {
	t.Helper()
	want, err := k.codec.Encode(media, list)
	if err != nil {
		t.Fatal(err)
	}
	b, err := made(media, l)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	b.Write(&got)
	if !bytes.Equal(got.Bytes(), want) || b.Size != len(want) {
		t.Fatalf("a %T of %d as %s differs: %d bytes, announced %d, want %d", list, len(l.items), media, got.Len(), b.Size, len(want))
	}
}

// oddList writes its items where no list of Kubernetes has them.
type oddList struct {
	appsv1.DeploymentList `json:",inline"`
	Extra                 string `json:"extra"`
}

func (l *oddList) DeepCopyObject() runtime.Object {
	return &oddList{*l.DeploymentList.DeepCopy(), l.Extra}
}

// TestOddListIsFoundOut: a list that is more than its items is left to the codec.
func TestOddListIsFoundOut(t *testing.T) {
	k := wireKind(t, Resource{
		Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments",
		New:     func() runtime.Object { return &appsv1.Deployment{} },
		NewList: func() runtime.Object { return &oddList{} },
	})
	if lists := k.forms.lists(); lists[wire.JSON] {
		t.Error("it passes for one of Kubernetes's")
	}
}

// TestTableIsTheCodecs compares a table that is put together with what the codec
// makes of it.
func TestTableIsTheCodecs(t *testing.T) {
	r := podResource()
	hour := "1h" // what time it is, as far as a column that is not steady goes
	r.Columns = []Column{
		{Name: "Node", Type: "string", Steady: true, Value: func(obj runtime.Object) any { return obj.(*corev1.Pod).Spec.NodeName + "<&>" }},
		{Name: "Since", Type: "string", Value: func(runtime.Object) any { return hour }},
		{Name: "Generation", Type: "integer", Steady: true, Value: func(obj runtime.Object) any { return obj.(*corev1.Pod).Generation }},
		{Name: "Cordoned", Type: "boolean", Steady: true, Value: func(runtime.Object) any { return true }},
		{Name: "Text", Type: "string", Value: func(obj runtime.Object) any { return obj.(*corev1.Pod).GenerateName + "\u2028\"\\\x00" + hour }},
	}
	k := wireKind(t, r)
	random := rand.New(rand.NewPCG(3, 4))
	l := &listing{revision: 7, next: "next", remaining: new(int64(3))}
	for _, n := range []int{0, 1, 100} {
		l.items = nil
		for range n {
			l.items = append(l.items, asItem(randomPod(random)))
		}
		for _, include := range []string{"", "None", "Metadata", "Object"} {
			hour += "+"
			q := &request{r: httptest.NewRequest(http.MethodGet, "/?includeObject="+include, nil), kind: k}
			list, err := k.table(q, l)
			if err != nil {
				t.Fatal(err)
			}
			want, err := k.codec.Encode(wire.JSON, list)
			if err != nil {
				t.Fatal(err)
			}
			b, err := k.tableBody(q, l)
			if err != nil {
				t.Fatal(err)
			}
			var got, zipped bytes.Buffer
			b.Write(&got)
			b.WriteZipped(&zipped)
			if !bytes.Equal(got.Bytes(), want) || b.Size != len(want) {
				t.Fatalf("%d rows with %q, announced as %d bytes:\n%s\nwant\n%s", n, include, b.Size, got.Bytes(), want)
			}
			z, err := gzip.NewReader(&zipped)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("zipped: %d bytes, want %d, %v", len(got), len(want), err)
			}
		}
	}
}

// TestTableEndsWithItsClient: no further row is made for a client that has left.
func TestTableEndsWithItsClient(t *testing.T) {
	var leave context.CancelFunc
	values := 0
	r := podResource()
	r.Columns = []Column{{Name: "Slow", Type: "string", Value: func(runtime.Object) any { values++; leave(); return "" }}}
	k := wireKind(t, r)
	random := rand.New(rand.NewPCG(5, 6))
	l := &listing{revision: 7}
	for range 10 {
		l.items = append(l.items, asItem(randomPod(random)))
	}
	for name, table := range map[string]func(*request) error{
		"table":     func(q *request) error { _, err := k.table(q, l); return err },
		"tableBody": func(q *request) error { _, err := k.tableBody(q, l); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		leave, values = cancel, 0
		q := &request{r: httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), kind: k}
		if err := table(q); !errors.Is(err, context.Canceled) || values != 1 {
			t.Errorf("%s() of 10 rows = %v after %d values, want context.Canceled after 1", name, err, values)
		}
	}
}

// TestDecorationIsSent: what is made up and not stored is sent all the same.
func TestDecorationIsSent(t *testing.T) {
	r := podResource()
	r.Decorate = func(obj runtime.Object) { obj.(*corev1.Pod).Annotations = map[string]string{"made": "up"} }
	k := wireKind(t, r)
	obj := randomPod(rand.New(rand.NewPCG(5, 6)))
	k.Strategy.Default(obj)
	data, err := k.encode(context.Background(), obj)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := k.item(storage.Record{Key: "k", Value: data, Revision: 7})
	if err != nil {
		t.Fatal(err)
	}
	k.standAt(obj, 8)
	known, err := k.decodeItem(storage.Record{Key: "k", Value: data, Revision: 8}, &object{Object: obj})
	if err != nil {
		t.Fatal(err)
	}
	announced := &item{Record: storage.Record{Key: "k", Value: data, Revision: 8}, Object: known}
	compareWire(t, k, &listing{revision: 9, items: []*item{decoded, announced}})
}
