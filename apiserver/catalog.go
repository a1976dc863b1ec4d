package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/documents"
	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/layout"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A catalog holds the kinds that a server serves, and knows which groups and versions there are, its
// own and those of other servers. It does not change: [Server.Change] replaces it.
type catalog struct {
	kinds map[schema.GroupVersionResource]*servedKind
	// groups are the groups of this server: those of Config in the order given, then the others by
	// name.
	groups []*group
	// versions holds the kinds of each group version, by plural.
	versions map[schema.GroupVersion][]*servedKind
	// added holds the resources that are not those of Config, with their kinds.
	added map[schema.GroupResource][]*servedKind
	// fixed holds the group versions of Config.
	fixed map[schema.GroupVersion]bool
	// places holds the resources by the storage prefix of their objects.
	places map[string]schema.GroupResource
	// owners is where objects of all kinds share what their managedFields say.
	owners *ownership.Shared
	// documents are the documents about this catalog.
	documents *documents.Documents
	// aggregator serves the groups of other servers; nil is none.
	aggregator Aggregator
}

// group is an API group as discovery shows it.
type group = documents.Group

// newCatalog checks the resources of c and derives from them what the server needs.
func newCatalog(c *Config, codec *wire.Codec, feed *cache.Feed) (*catalog, error) {
	t := &catalog{kinds: map[schema.GroupVersionResource]*servedKind{}, aggregator: c.Aggregator, fixed: map[schema.GroupVersion]bool{}, owners: &ownership.Shared{}}
	if err := t.addKinds(c, codec, feed); err != nil {
		return nil, err
	}
	t.addClaims(c)
	t.sortVersions()
	for gv := range t.versions {
		t.fixed[gv] = true
	}
	t.addTrackers()
	t.relateStored()
	return t, t.checkPlaces()
}

func (t *catalog) addKinds(c *Config, codec *wire.Codec, feed *cache.Feed) error {
	stored := map[schema.GroupResource]bool{}
	for _, one := range c.Resources {
		versions, err := one.expand()
		if err != nil {
			return fmt.Errorf("resource %s/%s %s: %w", one.Group, one.Version, one.Plural, err)
		}
		for _, r := range versions {
			if err := t.addKind(r, c, codec, feed); err != nil {
				return fmt.Errorf("resource %s/%s %s: %w", r.Group, r.Version, r.Plural, err)
			}
		}
		gr := schema.GroupResource{Group: one.Group, Resource: one.Plural}
		if stored[gr] {
			return fmt.Errorf("resource %s is given twice; a further version belongs into its Versions", gr)
		}
		stored[gr] = true
	}
	return nil
}

func (t *catalog) addKind(r Resource, c *Config, codec *wire.Codec, feed *cache.Feed) error {
	k, err := newKind(r, c, codec)
	if err != nil {
		return err
	}
	if t.kinds[k.gvr] != nil {
		return errors.New("the version is given twice")
	}
	t.kinds[k.gvr] = k
	t.addGroup(r.Group, r.Version)
	return k.addCache(feed)
}

func (t *catalog) addGroup(name, version string) {
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.Name == name })
	if i < 0 {
		t.groups = append(t.groups, &group{Name: name, Versions: []string{version}})
		return
	}
	if g := t.groups[i]; !slices.Contains(g.Versions, version) {
		g.Versions = append(g.Versions, version)
	}
}

// checkPlaces finds resources whose records could be taken for each other's, and sets places.
func (t *catalog) checkPlaces() error {
	all := layout.Places{}
	t.places = map[string]schema.GroupResource{}
	for _, k := range t.kinds {
		if k.Answer != nil {
			continue
		}
		if err := all.Add(k.root, schema.GroupResource{Group: k.stored.Group, Resource: k.stored.Plural}.String()); err != nil {
			return err
		}
		t.places[k.root] = schema.GroupResource{Group: k.stored.Group, Resource: k.stored.Plural}
		if k.Allocation == nil {
			continue
		}
		if err := all.Add(k.held, "what "+k.gr.String()+" hold"); err != nil {
			return err
		}
	}
	return all.Check()
}

// storedKind returns the kind of a resource in the version in which it is stored, nil if the resource
// is not served.
func (t *catalog) storedKind(name, plural string) *servedKind {
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	var found *servedKind
	for _, version := range t.groups[i].Versions {
		k := t.kinds[schema.GroupVersionResource{Group: name, Version: version, Resource: plural}]
		if k != nil && (found == nil || k.StoredAs == nil) {
			found = k // the stored version, if there are several
		}
	}
	return found
}

// versionsOf returns the kinds of all versions in which the resource of k is served.
func (t *catalog) versionsOf(k *servedKind) []*servedKind {
	var all []*servedKind
	for _, other := range t.kinds {
		if other.gr == k.gr {
			all = append(all, other)
		}
	}
	return all
}

// kindsOf returns the kinds of a group version by plural name.
func (t *catalog) kindsOf(name, version string) []*servedKind {
	return t.versions[schema.GroupVersion{Group: name, Version: version}]
}

// sortVersions fills versions.
func (t *catalog) sortVersions() {
	t.versions = map[schema.GroupVersion][]*servedKind{}
	for _, k := range t.kinds {
		gv := k.gvk.GroupVersion()
		t.versions[gv] = append(t.versions[gv], k)
	}
	for _, kinds := range t.versions {
		slices.SortFunc(kinds, func(a, b *servedKind) int { return strings.Compare(a.Plural, b.Plural) })
	}
}

// OwnGroups implements [documents.Catalog].
func (t *catalog) OwnGroups() []*group { return t.groups }

// Groups implements [documents.Catalog]. The groups are in the aggregator's order. Those of Config
// that it does not know come first, and other groups that it does not know last.
func (t *catalog) Groups() []*group {
	if t.aggregator == nil {
		return t.groups
	}
	var listed []*group
	for _, v := range t.aggregator.GroupVersions() {
		if v.Local && !t.serves(v.GroupVersion) {
			continue
		}
		listed = addVersion(listed, v.GroupVersion)
	}
	var first, last []*group
	for _, g := range t.groups {
		if !slices.ContainsFunc(listed, func(l *group) bool { return l.Name == g.Name }) {
			if t.isFixed(g) {
				first = append(first, g)
			} else {
				last = append(last, g)
			}
			continue
		}
		for _, v := range g.Versions {
			listed = addVersion(listed, schema.GroupVersion{Group: g.Name, Version: v})
		}
	}
	return slices.Concat(first, listed, last)
}

// hasGroup reports whether Config has resources of a group.
func (t *catalog) hasGroup(name string) bool {
	return slices.ContainsFunc(t.groups, func(g *group) bool { return g.Name == name && t.isFixed(g) })
}

// isFixed reports whether g has resources of Config.
func (t *catalog) isFixed(g *group) bool {
	return slices.ContainsFunc(g.Versions, func(v string) bool { return t.fixed[schema.GroupVersion{Group: g.Name, Version: v}] })
}

// addVersion adds gv to groups unless it is there.
func addVersion(groups []*group, gv schema.GroupVersion) []*group {
	i := slices.IndexFunc(groups, func(g *group) bool { return g.Name == gv.Group })
	if i < 0 {
		return append(groups, &group{Name: gv.Group, Versions: []string{gv.Version}})
	}
	if g := groups[i]; !slices.Contains(g.Versions, gv.Version) {
		g.Versions = append(g.Versions, gv.Version)
	}
	return groups
}

// serves reports whether this server itself has gv.
func (t *catalog) serves(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(t.groups, func(g *group) bool {
		return g.Name == gv.Group && slices.Contains(g.Versions, gv.Version)
	})
}

// Others implements [documents.Catalog].
func (t *catalog) Others() map[schema.GroupVersion]documents.Other {
	if t.aggregator == nil {
		return nil
	}
	out := map[schema.GroupVersion]documents.Other{}
	for _, v := range t.aggregator.GroupVersions() {
		if !v.Local {
			out[v.GroupVersion] = documents.Other{Resources: v.Resources, Stale: v.Stale, OpenAPIHash: v.OpenAPIHash}
		}
	}
	return out
}

// Resources implements [documents.Catalog].
func (t *catalog) Resources(group, version string) []documents.Resource {
	var all []documents.Resource
	for _, k := range t.kindsOf(group, version) {
		all = append(all, k.described())
	}
	return all
}

// described returns the kind as documents describe it.
func (k *servedKind) described() documents.Resource {
	r := documents.Resource{
		Kind: k.gvk, Plural: k.Plural, Singular: k.Singular, Namespaced: k.Namespaced,
		Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories, New: k.New,
	}
	if k.Answer == nil {
		r.NewList, r.ListKind = k.NewList, k.ListKind
		r.Stored = schema.GroupVersionKind{Group: k.stored.Group, Version: k.stored.Version, Kind: k.stored.Kind}
	}
	if k.Schema != nil {
		r.Schema = &documents.Schema{Name: k.Schema.Name, V3: k.Schema.V3, V2: k.Schema.V2}
	}
	for i := range k.subresources {
		sub := &k.subresources[i]
		body := k.New
		if sub.newBody != nil {
			body = sub.newBody
		}
		proxy, connects := as[Proxy](sub)
		if connects {
			body = nil // no type describes the server behind it
		}
		r.Subresources = append(r.Subresources, documents.Subresource{
			Name: sub.name, Kind: k.subKind(sub), Verbs: sub.verbs, New: body, Parent: sub.newBody == nil,
			Options: proxy.Options, Paths: proxy.Paths,
		})
	}
	return r
}

// ResourceAt returns the resource whose objects are stored below key or whose object key is, the zero
// GroupResource if there is none.
func (s *Server) ResourceAt(key storage.Key) schema.GroupResource {
	places := s.catalog.Load().places
	for end := len(s.config.Prefix) + 1; end < len(key); end++ {
		if key[end] == '/' {
			if gr, ok := places[string(key[:end+1])]; ok {
				return gr
			}
		}
	}
	return schema.GroupResource{}
}

// CountStored counts the objects in storage by resource. It reads one record of each.
func (s *Server) CountStored(ctx context.Context) (map[schema.GroupResource]int64, error) {
	counts := map[schema.GroupResource]int64{}
	for _, k := range s.catalog.Load().kinds {
		if k.Answer != nil {
			continue
		}
		page, err := s.config.Store.List(ctx, storage.Key(k.root), storage.ListOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		counts[k.gr] = int64(len(page.Records)) + page.Remaining
	}
	return counts, nil
}

// An Aggregator serves API groups that other servers have. Package aggregate has
// one. Its methods are called by many goroutines, Handler with every request.
type Aggregator interface {
	// GroupVersions returns the group versions of other servers and, if they are in one
	// order with them, those of this server, the preferred of each group first. The
	// result must not be changed.
	GroupVersions() []AggregatedVersion
	// Handler returns the handler of a group version, nil if this server serves it. The
	// user is in the request's context (see package user) and has been authorized. The
	// handler also serves the documents of the group version.
	Handler(schema.GroupVersion) http.Handler
}

// An AggregatedVersion describes one version of a group.
type AggregatedVersion struct {
	schema.GroupVersion
	// Local reports whether this server serves the version. If so, the fields below have no
	// meaning.
	Local bool
	// Resources lists the resources and subresources of the other server's last discovery
	// document, as an APIResourceList does.
	Resources []metav1.APIResource
	// Stale reports that the other server does not answer at the moment.
	Stale bool
	// OpenAPIHash is the hash of the version's OpenAPI v3 document; empty means no document.
	OpenAPIHash string
}

// remote returns the handler of another server that serves the request, nil if this server
// does.
func (t *catalog) remote(info *requestline.Info) http.Handler {
	if t.aggregator == nil {
		return nil
	}
	if info.Resource != "" {
		if info.Group == "" {
			return nil
		}
		return t.aggregator.Handler(schema.GroupVersion{Group: info.Group, Version: info.Version})
	}
	return t.documented(info.Path)
}

// documented returns the handler of another server that has the document at path: the
// discovery or the OpenAPI v3 document of its group version.
func (t *catalog) documented(path string) http.Handler {
	rest, ok := strings.CutPrefix(path, "/openapi/v3/apis/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/apis/"); !ok {
			return nil
		}
	}
	group, version, ok := strings.Cut(rest, "/")
	if !ok || strings.Contains(version, "/") {
		return nil
	}
	return t.aggregator.Handler(schema.GroupVersion{Group: group, Version: version})
}

// forward has the remote server respond. Long-running requests end when this server stops.
func (c *call) forward() {
	r := c.r
	if c.longRunning {
		intake.RemoveReadDeadline(&c.w)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(c.server.stopping, cancel)()
		r = r.WithContext(ctx)
	}
	c.remote.ServeHTTP(&c.w, r)
}
