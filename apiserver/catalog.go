package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/layout"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A catalog holds the kinds that a server serves, and knows which groups and versions there are, its
// own and those of other servers. Its kinds do not change.
type catalog struct {
	kinds map[schema.GroupVersionResource]*servedKind
	// groups are the groups of this server, in the order given.
	groups []*group
	// aggregator serves the groups of other servers; nil is none.
	aggregator Aggregator
}

// group is an API group as discovery shows it, versions in the order given.
type group struct {
	name     string
	versions []string
}

// newCatalog checks the resources of c and derives from them what the server needs.
func newCatalog(c *Config, codec *wire.Codec, feed *cache.Feed) (*catalog, error) {
	t := &catalog{kinds: map[schema.GroupVersionResource]*servedKind{}, aggregator: c.Aggregator}
	if err := t.addKinds(c, codec, feed); err != nil {
		return nil, err
	}
	t.addTrackers()
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
	k, err := newKind(r, layout.Layout{Prefix: c.Prefix, Below: c.Layout}, codec)
	if err != nil {
		return err
	}
	if t.kinds[k.gvr] != nil {
		return errors.New("the version is given twice")
	}
	t.kinds[k.gvr] = k
	t.addGroup(r.Group, r.Version)
	k.addClaims(c.Store, c.Log)
	return k.addCache(feed)
}

func (t *catalog) addGroup(name, version string) {
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		t.groups = append(t.groups, &group{name: name, versions: []string{version}})
		return
	}
	if g := t.groups[i]; !slices.Contains(g.versions, version) {
		g.versions = append(g.versions, version)
	}
}

// checkPlaces finds resources whose records could be taken for each other's.
func (t *catalog) checkPlaces() error {
	all := layout.Places{}
	for _, k := range t.kinds {
		if k.Answer != nil {
			continue
		}
		if err := all.Add(k.root, schema.GroupResource{Group: k.stored.Group, Resource: k.stored.Plural}.String()); err != nil {
			return err
		}
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
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	var found *servedKind
	for _, version := range t.groups[i].versions {
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
	var kinds []*servedKind
	for _, k := range t.kinds {
		if k.Group == name && k.Version == version {
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b *servedKind) int { return strings.Compare(a.Plural, b.Plural) })
	return kinds
}

func (t *catalog) group(name string) *group {
	for _, g := range t.allGroups() {
		if g.name == name && name != "" {
			return g
		}
	}
	return nil
}

// allGroups returns the current groups of this and the other servers, in the
// aggregator's order. Groups that the aggregator does not know come first.
func (t *catalog) allGroups() []*group {
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
	var first []*group
	for _, g := range t.groups {
		if !slices.ContainsFunc(listed, func(l *group) bool { return l.name == g.name }) {
			first = append(first, g)
			continue
		}
		for _, v := range g.versions {
			listed = addVersion(listed, schema.GroupVersion{Group: g.name, Version: v})
		}
	}
	return append(first, listed...)
}

// addVersion adds gv to groups unless it is there.
func addVersion(groups []*group, gv schema.GroupVersion) []*group {
	i := slices.IndexFunc(groups, func(g *group) bool { return g.name == gv.Group })
	if i < 0 {
		return append(groups, &group{name: gv.Group, versions: []string{gv.Version}})
	}
	if g := groups[i]; !slices.Contains(g.versions, gv.Version) {
		g.versions = append(g.versions, gv.Version)
	}
	return groups
}

// serves reports whether this server itself has gv.
func (t *catalog) serves(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(t.groups, func(g *group) bool {
		return g.name == gv.Group && slices.Contains(g.versions, gv.Version)
	})
}

// others are the group versions of other servers.
func (t *catalog) others() map[schema.GroupVersion]AggregatedVersion {
	if t.aggregator == nil {
		return nil
	}
	out := map[schema.GroupVersion]AggregatedVersion{}
	for _, v := range t.aggregator.GroupVersions() {
		if !v.Local {
			out[v.GroupVersion] = v
		}
	}
	return out
}

// groupPath is where a version of a group is served.
func groupPath(name, version string) string {
	if name == "" {
		return "/api/" + version
	}
	return "/apis/" + name + "/" + version
}

// CountStored counts the objects in storage by resource. It reads one record of each.
func (s *Server) CountStored(ctx context.Context) (map[schema.GroupResource]int64, error) {
	counts := map[schema.GroupResource]int64{}
	for _, k := range s.catalog.kinds {
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
