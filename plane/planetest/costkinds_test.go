package planetest_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

const (
	apply      = "application/apply-patch+yaml"
	strategic  = "application/strategic-merge-patch+json"
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
)

// A costKind makes the requests of the search for one kind.
type costKind struct {
	bench        *bench
	resource     apiserver.Resource
	who          *client.Client
	object       map[string]any // the example
	name, path   string
	lists, texts []place
	// status are the lists in the status.
	status []place
	random *rand.Rand
}

// allocated are the fields of examples that the server chooses.
var allocated = map[string][][]string{
	"services": {{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
}

func newCostKind(b *bench, r apiserver.Resource, base map[string]any) *costKind {
	object := map[string]any{"metadata": map[string]any{"name": "x"}}
	maps.Copy(object, base)
	object["apiVersion"], object["kind"] = strings.TrimPrefix(r.Group+"/"+r.Version, "/"), r.Kind
	meta, _ := object["metadata"].(map[string]any)
	delete(meta, "resourceVersion")
	for _, path := range allocated[r.Plural] {
		object = with(object, path[:len(path)-1], func(had any) any {
			fields := maps.Clone(had.(map[string]any))
			delete(fields, path[len(path)-1])
			return fields
		}).(map[string]any)
	}
	k := &costKind{bench: b, resource: r, who: b.root, object: object, name: fmt.Sprint(meta["name"]), path: rootOf(r), random: rand.New(rand.NewPCG(*costSeed, 0))}
	if r.Namespaced {
		meta["namespace"] = "shop"
		k.path += "/namespaces/shop"
		k.who = b.ann
	}
	k.path += "/" + r.Plural
	t := reflect.TypeOf(r.New()).Elem()
	k.lists, k.texts = placesOf(t, func(field string) bool { return field != "status" })
	k.status, _ = placesOf(t, func(field string) bool { return field == "status" })
	return k
}

// fillAll fills all given lists at once.
func (k *costKind) fillAll(lists []place, m manner, size int) any {
	var out any = k.object
	for _, l := range slices.Backward(lists) { // inner lists first
		out = fillFirst(out, l, m, size/(len(lists)+1))
	}
	return out
}

// outside returns the lists that are not in metadata.
func outside(lists []place) []place {
	return slices.DeleteFunc(slices.Clone(lists), func(l place) bool { return l.path[0] == "metadata" })
}

func (k *costKind) create(what string, body func(size int) any) costly {
	return costly{
		name: "create " + k.resource.Plural + " " + what, who: k.who, method: "POST", path: k.path,
		query: url.Values{"dryRun": {"All"}}, media: "application/json",
		body: func(size int) string {
			return toJSON(with(body(size), []string{"metadata", "name"}, func(any) any { return k.name + "x" }))
		},
	}
}

// change returns a request for the stored example, or a subresource of it: a PUT, or a patch of a media type.
func (k *costKind) change(sub, media, what string, body func(size int) any) costly {
	c := costly{
		name: media + " " + k.resource.Plural + sub + " " + what, who: k.who, method: "PATCH", path: k.path + "/" + url.PathEscape(k.name) + sub,
		query: url.Values{"dryRun": {"All"}}, media: media, body: func(size int) string { return toJSON(body(size)) },
	}
	switch media {
	case apply:
		c.query = url.Values{"dryRun": {"All"}, "fieldManager": {"m"}, "force": {"true"}}
	case "PUT", "POST":
		c.method, c.media = media, "application/json"
	}
	return c
}

// few sends a fixed choice of requests.
func (k *costKind) few() {
	b := k.bench
	for _, m := range []manner{empty, filled} {
		b.measure(k.create("all lists "+string(m), func(size int) any { return k.fillAll(outside(k.lists), m, size) }), costSizes[0])
	}
	if used.Slowdown > 1 {
		return // the race detector takes its time
	}
	stored := k.store(k.object) == nil
	for _, p := range k.pairs(2) {
		b.measure(k.create(p.String()+" filled", func(size int) any { return p.fill(k.object, filled, size) }), costSizes[0])
		if stored {
			b.measure(k.change("", jsonPatch, p.String()+" in front", func(size int) any { return inFront(p.lists[0], size) }), costSizes[0])
		}
	}
	if stored && len(k.status) > 0 {
		b.measure(k.change("/status", mergePatch, "all lists", func(size int) any { return k.fillAll(k.status, filled, size) }), costSizes[0])
	}
}

// store creates an object.
func (k *costKind) store(object any) error {
	return k.bench.create(k.path, object)
}

// search sends the requests of one kind.
func (k *costKind) search() {
	b := k.bench
	err := k.store(k.object)
	if err != nil && len(k.resource.Verbs) != 1 {
		b.t.Logf("the example is not created: %.300v", err)
	}
	each := func(what string, body func(size int) any, sizes ...int) {
		b.measure(k.create(what, body), sizes...)
		b.measure(k.change("", apply, what, body), sizes...)
		if err == nil {
			for _, media := range []string{"PUT", strategic, mergePatch} {
				b.measure(k.change("", media, what, body), sizes...)
			}
		}
	}
	for _, m := range manners {
		each("all lists "+string(m), func(size int) any { return k.fillAll(outside(k.lists), m, size) }, costSizes...)
		for _, l := range k.lists {
			each(l.String()+" "+string(m), func(size int) any { return fillList(k.object, l, m, size) }, costSizes...)
		}
		for _, p := range k.pairs(*costPairs) {
			each(p.String()+" "+string(m), func(size int) any { return p.fill(k.object, m, size) }, costSizes[:2]...)
		}
	}
	for _, text := range k.texts {
		for _, unit := range []string{"a", "1,", "9"} {
			b.measure(k.create(text.String()+" of "+unit, func(size int) any {
				return with(k.object, text.path, func(any) any { return strings.Repeat(unit, size/len(unit)) })
			}), costSizes[len(costSizes)-1])
		}
	}
	if err == nil {
		k.searchPatches()
		k.searchSubresources()
	}
	k.searchUpdates()
}

// searchPatches sends JSON patches.
func (k *costKind) searchPatches() {
	for _, l := range k.lists {
		if slices.Contains(l.path, anyKey) {
			continue
		}
		for what, body := range map[string]func(size int) any{
			"in front": func(size int) any { return inFront(l, size) },
			"moves":    func(size int) any { return moves(l, size) },
			"copies":   func(size int) any { return copies(l, size) },
		} {
			k.bench.measure(k.change("", jsonPatch, l.String()+" "+what, body), costSizes...)
		}
	}
}

// others are the types of subresources that are no part of their object.
var others = map[string]reflect.Type{
	"Scale": reflect.TypeFor[autoscalingv1.Scale](), "Eviction": reflect.TypeFor[policyv1.Eviction](),
	"TokenRequest": reflect.TypeFor[authenticationv1.TokenRequest](), "Binding": reflect.TypeFor[corev1.Binding](),
}

// searchSubresources sends each subresource that takes a body.
func (k *costKind) searchSubresources() {
	for _, served := range k.bench.served[rootOf(k.resource)] {
		name, isOf := strings.CutPrefix(served.Name, k.resource.Plural+"/")
		if !isOf {
			continue
		}
		k := *k
		k.who = k.bench.root // administrators of namespaces may not write status
		lists := slices.Concat(k.lists, k.status)
		if name == "status" {
			lists = k.status
		}
		if t := others[served.Kind]; t != nil {
			lists, _ = placesOf(t, func(string) bool { return true })
			k.object = map[string]any{"apiVersion": strings.TrimPrefix(served.Group+"/"+served.Version, "/"), "kind": served.Kind, "metadata": map[string]any{"name": k.name}}
			if served.Version == "" {
				k.object["apiVersion"] = strings.TrimPrefix(k.resource.Group+"/"+k.resource.Version, "/")
			}
		} else if served.Kind != k.resource.Kind {
			continue // streams, which take no body
		}
		var media []string
		for verb, all := range map[string][]string{"create": {"POST"}, "update": {"PUT"}, "patch": {apply, strategic, mergePatch}} {
			if slices.Contains(served.Verbs, verb) {
				media = append(media, all...)
			}
		}
		slices.Sort(media)
		for _, media := range media {
			for _, m := range manners {
				k.bench.measure(k.change("/"+name, media, "all lists "+string(m), func(size int) any { return k.fillAll(outside(lists), m, size) }), costSizes...)
				for _, l := range lists {
					k.bench.measure(k.change("/"+name, media, l.String()+" "+string(m), func(size int) any { return fillList(k.object, l, m, size) }), costSizes[:2]...)
				}
			}
		}
	}
}

// searchUpdates stores large objects, as far as they are valid, and replaces their lists by something else.
func (k *costKind) searchUpdates() {
	k.name += "-large"
	for _, l := range k.lists {
		large := func(size int) any {
			return with(fillList(k.object, l, likeBase, size), []string{"metadata", "name"}, func(any) any { return k.name })
		}
		const size = 300 << 10
		body := large(size)
		if len(toJSON(body)) < size/2 || k.store(body) != nil {
			continue
		}
		for _, media := range []string{"PUT", apply, strategic, mergePatch} {
			k.bench.measure(k.change("", media, l.String()+" of a large one", large), size/2)
			k.bench.measure(k.change("", media, l.String()+" backwards", func(size int) any {
				return with(large(size), l.path, func(had any) any {
					if list, ok := had.([]any); ok {
						slices.Reverse(list)
					}
					return had
				})
			}), size)
		}
		path := k.path + "/" + url.PathEscape(k.name)
		if _, err := k.bench.root.Do(k.bench.t.Context(), client.Request{Method: "DELETE", Path: path, Query: url.Values{"gracePeriodSeconds": {"0"}}}); err != nil {
			k.bench.t.Logf("DELETE %s = %.200v", path, err)
			return
		}
	}
}

// A group is two or three lists of a kind that are filled together.
type group struct {
	lists  []place
	nested bool // the second is in the items of the first, and all items have it
}

func (g group) String() string {
	var names []string
	for _, l := range g.lists {
		names = append(names, l.String())
	}
	if g.nested {
		return strings.Join(names, " each with ")
	}
	return strings.Join(names, " and ")
}

// fill returns the object with the lists filled.
func (g group) fill(object any, m manner, size int) any {
	if g.nested {
		inner := int(math.Sqrt(float64(size) * 40))
		return fillList(fillFirst(object, g.lists[1], m, inner), g.lists[0], likeBase, size)
	}
	for _, l := range slices.Backward(g.lists) {
		object = fillFirst(object, l, m, size/len(g.lists))
	}
	return object
}

// pairs chooses at most n pairs and triples of lists: half of them at random, and half among those that
// have a parent in common or are one in the other.
func (k *costKind) pairs(n int) []group {
	var near, far []group
	for i, a := range k.lists {
		for _, b := range k.lists[i+1:] {
			switch parent := len(a.path) - 1; {
			case len(b.path) > len(a.path) && slices.Equal(a.path, b.path[:len(a.path)]) && a.kind.Kind() == reflect.Slice:
				near = append(near, group{[]place{a, b}, true})
			case len(a.path) == len(b.path) && slices.Equal(a.path[:parent], b.path[:parent]):
				near = append(near, group{[]place{a, b}, false})
			default:
				far = append(far, group{[]place{a, b}, false})
			}
		}
	}
	for range n / 4 {
		if len(k.lists) > 2 {
			i := k.random.Perm(len(k.lists))[:3]
			slices.Sort(i)
			far = append(far, group{[]place{k.lists[i[0]], k.lists[i[1]], k.lists[i[2]]}, false})
		}
	}
	for _, all := range [][]group{near, far} {
		k.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	near = near[:min(len(near), max((n+1)/2, n-len(far)))]
	return append(near, far[:min(len(far), n-len(near))]...)
}
