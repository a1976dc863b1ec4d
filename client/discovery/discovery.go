// Package discovery reads which resources a server serves, and finds the resource that a user means
// by a word.
//
//	catalog, err := discovery.Fetch(ctx, c)
//	m, err := catalog.Resolve("deploy") // deployments of apps/v1
//
// A word is a plural, a singular, a kind or a short name, in any case, alone or with a group
// ("deployments.apps") or with a version and a group ("deployments.v1.apps"). If several resources
// match, the core group has precedence, then the order in which the server lists its groups. Exact
// names have precedence over short names.
//
// A group that cannot be listed does not prevent others from being found; see [Catalog.Failed]. A
// Catalog is a snapshot and never changes.
package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapping is one resource that a server serves.
type Mapping struct {
	Group, Version string
	// Plural is the name in URLs.
	Plural     string
	Singular   string
	Kind       string
	ShortNames []string
	Namespaced bool
	// Verbs are the operations that the server supports, such as "list".
	Verbs []string
	// Subresources are the names of the subresources, such as "scale".
	Subresources []string
}

// Path returns the path of the resource's objects in namespace. namespace is empty for all
// namespaces and for cluster-scoped resources.
func (m *Mapping) Path(namespace string) string {
	path := "/apis/" + m.Group + "/" + m.Version
	if m.Group == "" {
		path = "/api/" + m.Version
	}
	if m.Namespaced && namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + m.Plural
}

// GroupKind returns the kind as kubectl prints it: "pod", "deployment.apps".
func (m *Mapping) GroupKind() string {
	kind := strings.ToLower(m.Kind)
	if m.Group != "" {
		kind += "." + m.Group
	}
	return kind
}

// Catalog lists the resources of a server.
type Catalog struct {
	// Mappings are all resources without their subresources: the core group first, then group by
	// group, each with its preferred version first.
	Mappings []Mapping
	// Failed are the group versions that could not be listed.
	Failed map[schema.GroupVersion]error
}

// Fetch reads the Catalog of a server.
func Fetch(ctx context.Context, c *client.Client) (*Catalog, error) {
	versions, err := groupVersions(ctx, c)
	if err != nil {
		return nil, err
	}
	catalog := &Catalog{Failed: map[schema.GroupVersion]error{}}
	for _, gv := range versions {
		path := "/apis/" + gv.Group + "/" + gv.Version
		if gv.Group == "" {
			path = "/api/" + gv.Version
		}
		var list metav1.APIResourceList
		if err := get(ctx, c, path, &list); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			catalog.Failed[gv] = err
			continue
		}
		catalog.add(gv, list.APIResources)
	}
	return catalog, nil
}

// groupVersions returns the versions to read, in order of preference.
func groupVersions(ctx context.Context, c *client.Client) ([]schema.GroupVersion, error) {
	var core metav1.APIVersions
	if err := get(ctx, c, "/api", &core); err != nil {
		return nil, err
	}
	var groups metav1.APIGroupList
	if err := get(ctx, c, "/apis", &groups); err != nil {
		return nil, err
	}
	var all []schema.GroupVersion
	for _, v := range core.Versions {
		all = append(all, schema.GroupVersion{Version: v})
	}
	for _, g := range groups.Groups {
		preferred := schema.GroupVersion{Group: g.Name, Version: g.PreferredVersion.Version}
		if preferred.Version != "" {
			all = append(all, preferred)
		}
		for _, v := range g.Versions {
			if gv := (schema.GroupVersion{Group: g.Name, Version: v.Version}); gv != preferred {
				all = append(all, gv)
			}
		}
	}
	return all, nil
}

func get(ctx context.Context, c *client.Client, path string, into any) error {
	response, err := c.Do(ctx, client.Request{Path: path})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(response.Body, into); err != nil {
		return fmt.Errorf("discovery: %s: %w", path, err)
	}
	return nil
}

func (c *Catalog) add(gv schema.GroupVersion, resources []metav1.APIResource) {
	subresources := map[string][]string{} // by the resource's name
	for _, r := range resources {
		if resource, subresource, ok := strings.Cut(r.Name, "/"); ok {
			subresources[resource] = append(subresources[resource], subresource)
		}
	}
	for _, r := range resources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		singular := r.SingularName
		if singular == "" {
			singular = strings.ToLower(r.Kind)
		}
		c.Mappings = append(c.Mappings, Mapping{
			Group: gv.Group, Version: gv.Version, Plural: r.Name, Singular: singular, Kind: r.Kind,
			ShortNames: r.ShortNames, Namespaced: r.Namespaced, Verbs: r.Verbs, Subresources: subresources[r.Name],
		})
	}
}

// UnknownError reports that the server has no resource of that name. Its text is kubectl's.
type UnknownError struct{ Word string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("the server doesn't have a resource type %q", e.Word)
}

// Resolve finds the resource for word. If there is none, the error is an [*UnknownError].
func (c *Catalog) Resolve(word string) (Mapping, error) {
	name, rest, _ := strings.Cut(strings.ToLower(word), ".")
	if name != "" {
		for _, fits := range []func(*Mapping) bool{
			func(m *Mapping) bool {
				return name == m.Plural || name == m.Singular || name == strings.ToLower(m.Kind)
			},
			func(m *Mapping) bool { return slices.Contains(m.ShortNames, name) },
		} {
			for i := range c.Mappings {
				m := &c.Mappings[i]
				if fits(m) && (rest == "" || rest == m.Group || rest == m.Version+"."+m.Group) {
					return *m, nil
				}
			}
		}
	}
	return Mapping{}, &UnknownError{word}
}

// UnknownKindError reports that the server has no resource of that kind. Its text is kubectl's.
type UnknownKindError struct{ Kind schema.GroupVersionKind }

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("no matches for kind %q in version %q", e.Kind.Kind, e.Kind.GroupVersion())
}

// ForKind returns the resource of a kind in that version. If there is none, the error is an
// [*UnknownKindError].
func (c *Catalog) ForKind(kind schema.GroupVersionKind) (Mapping, error) {
	for i := range c.Mappings {
		if m := &c.Mappings[i]; m.Kind == kind.Kind && m.Group == kind.Group && m.Version == kind.Version {
			return *m, nil
		}
	}
	return Mapping{}, &UnknownKindError{kind}
}
