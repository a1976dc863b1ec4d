package apiserver

import (
	"cmp"
	"errors"
	"strings"
	"sync"
	"unicode"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxManager bounds the names of field managers, as in Kubernetes.
const maxManager = 128

// addTrackers lets every stored kind know who owns its fields. How types merge
// is read from their schemas at the first write to a group version.
func (s *Server) addTrackers() {
	types := map[schema.GroupVersion]func() (*ownership.Types, error){}
	for _, g := range s.groups {
		for _, v := range g.versions {
			types[schema.GroupVersion{Group: g.name, Version: v}] = sync.OnceValues(func() (*ownership.Types, error) {
				definitions, err := openapi.Definitions(s.described(g.name, v))
				if err != nil {
					return nil, err
				}
				return ownership.NewTypes(definitions)
			})
		}
	}
	shared := &ownership.Shared{}
	for _, k := range s.kinds {
		known := types[k.gvk.GroupVersion()]
		k.owners = shared
		k.trackers = map[string]func() (*ownership.Tracker, error){"": newTracker(known, ownership.Config{
			Kind: k.gvk, New: k.New, Default: k.Strategy.Default, Ignored: k.resets(), Shared: shared,
		})}
		for i := range k.subresources {
			sub := &k.subresources[i]
			k.trackers[sub.Name] = newTracker(known, ownership.Config{
				Kind: k.gvk, Subresource: sub.Name, New: k.New, Default: k.Strategy.Default, Ignored: sub.Resets, Shared: shared,
			})
			if sub.Replicas != "" {
				k.trackers[viewOf(sub)] = newTracker(known, ownership.Config{
					Kind: k.subKind(sub), Subresource: sub.Name, New: sub.New, Shared: shared,
				})
			}
		}
	}
}

// viewOf names the tracker of what a subresource shows, which is a type of its own.
func viewOf(sub *subresource) string { return sub.Name + "/" + sub.Kind }

func newTracker(types func() (*ownership.Types, error), c ownership.Config) func() (*ownership.Tracker, error) {
	return sync.OnceValues(func() (*ownership.Tracker, error) {
		var err error
		if c.Types, err = types(); err != nil {
			return nil, err
		}
		return ownership.New(c)
	})
}

func (k *kind) resets() []string {
	if k.Resets == nil && k.subresource("status") != nil {
		return []string{"status"}
	}
	return k.Resets
}

// tracker follows changes made through the named subresource, or the object's
// own path where that is empty.
func (k *kind) tracker(sub string) (*ownership.Tracker, error) {
	made := k.trackers[sub]
	if made == nil {
		return nil, errors.New("apiserver: no tracker of " + k.Kind + "/" + sub)
	}
	return made()
}

// ownNew makes manager the owner of what a new object says. An object whose
// fields cannot be told apart is stored without owners.
func (s *Server) ownNew(q *request, obj runtime.Object, manager string) {
	tracker, err := q.kind.tracker("")
	if err == nil {
		err = tracker.Create(obj, q.manager(manager))
	}
	s.ownerless(q, obj, err)
}

// own makes manager the owner of the fields in which obj differs from old.
func (s *Server) own(q *request, old, obj runtime.Object, manager string) {
	tracker, err := q.kind.tracker(q.info.Subresource)
	if err == nil {
		err = tracker.Update(old, obj, q.manager(manager))
	}
	s.ownerless(q, obj, err)
}

func (s *Server) ownerless(q *request, obj runtime.Object, err error) {
	if err == nil {
		return
	}
	s.config.Log.Error(err, "owners of fields are lost", "resource", q.kind.gr.String(), "object", q.info.Namespace+"/"+q.info.Name)
	accessor(obj).SetManagedFields(nil)
}

// manager is the name under which the request's changes are recorded: the one
// given, or the client's program as its User-Agent begins.
func (q *request) manager(given string) string {
	if given != "" {
		return given
	}
	name, _, _ := strings.Cut(q.r.UserAgent(), "/")
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > maxManager {
		name = strings.ToValidUTF8(name[:maxManager], "")
	}
	return cmp.Or(name, "unknown")
}
