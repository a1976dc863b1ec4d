package rbac

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
)

// index is what decisions read. It is never changed once it is published.
type index struct {
	roles  map[roleKey][]rbacv1.PolicyRule
	grants map[subject][]*grant
}

// subject is a user or group as seen by the bindings of one namespace, or, with
// an empty namespace, by the cluster role bindings. Service accounts are users.
type subject struct{ namespace, kind, name string }

// roleKey names a role; a cluster role has no namespace.
type roleKey struct{ namespace, name string }

func (k roleKey) missing() string {
	kind := "clusterrole"
	if k.namespace != "" {
		kind = "role"
	}
	return fmt.Sprintf("%s.%s %q not found", kind, rbacv1.GroupName, k.name)
}

// grant is one subject of one binding.
type grant struct {
	binding bindingKey
	role    roleKey
	reason  string
}

// bindingKey names a binding; a cluster role binding has no namespace.
type bindingKey struct{ namespace, name string }

// builder makes each index from the one before. It shares with the published
// index whatever a batch does not touch.
type builder struct {
	log          logr.Logger
	clusterRoles map[string]*rbacv1.ClusterRole
	index        index

	// Of the batch under way:
	ownRoles, ownGrants bool             // the maps have been cloned
	ownSlices           map[subject]bool // the slices in grants have been cloned
	clusterRolesChanged bool
}

func newBuilder(log logr.Logger) *builder {
	return &builder{log: log, clusterRoles: make(map[string]*rbacv1.ClusterRole)}
}

// apply makes the index that stands after a batch of changes.
func (b *builder) apply(batch []change) *index {
	b.ownRoles, b.ownGrants, b.clusterRolesChanged = false, false, false
	b.ownSlices = make(map[subject]bool)
	for _, c := range batch {
		c(b)
	}
	if b.clusterRolesChanged {
		b.resolveClusterRoles()
	}
	published := b.index
	return &published
}

func (b *builder) roles() map[roleKey][]rbacv1.PolicyRule {
	if !b.ownRoles {
		b.index.roles = cloned(b.index.roles)
		b.ownRoles = true
	}
	return b.index.roles
}

func (b *builder) grants() map[subject][]*grant {
	if !b.ownGrants {
		b.index.grants = cloned(b.index.grants)
		b.ownGrants = true
	}
	return b.index.grants
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	return maps.Clone(m)
}

// own makes sure that nobody else reads the slice of s.
func (b *builder) own(s subject) {
	if !b.ownSlices[s] {
		b.grants()[s] = slices.Clone(b.grants()[s])
		b.ownSlices[s] = true
	}
}

// bind adds what a binding grants.
func (b *builder) bind(key bindingKey, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	role, ok := resolve(key, ref)
	if !ok {
		return
	}
	for _, s := range subjects {
		who, ok := subjectOf(key, s)
		if !ok {
			continue
		}
		b.own(who)
		grants := b.grants()
		grants[who] = append(grants[who], &grant{binding: key, role: role, reason: reason(key, ref, s)})
	}
}

// unbind removes what a binding granted.
func (b *builder) unbind(key bindingKey, subjects []rbacv1.Subject) {
	for _, s := range subjects {
		who, ok := subjectOf(key, s)
		if !ok || len(b.index.grants[who]) == 0 {
			continue
		}
		b.own(who)
		grants := b.grants()
		grants[who] = slices.DeleteFunc(grants[who], func(g *grant) bool { return g.binding == key })
		if len(grants[who]) == 0 {
			delete(grants, who)
			delete(b.ownSlices, who)
		}
	}
}

// resolve says which role a binding points at. A cluster role binding cannot
// point at a role.
func resolve(key bindingKey, ref rbacv1.RoleRef) (roleKey, bool) {
	switch {
	case ref.Kind == "ClusterRole":
		return roleKey{name: ref.Name}, true
	case ref.Kind == "Role" && key.namespace != "":
		return roleKey{key.namespace, ref.Name}, true
	}
	return roleKey{}, false
}

// subjectOf says whom a binding names. A service account without a namespace
// lives in that of its binding.
func subjectOf(key bindingKey, s rbacv1.Subject) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		return subject{key.namespace, s.Kind, s.Name}, true
	case rbacv1.ServiceAccountKind:
		namespace := s.Namespace
		if namespace == "" {
			namespace = key.namespace
		}
		if namespace == "" {
			return subject{}, false
		}
		return subject{key.namespace, rbacv1.UserKind, user.ServiceAccountPrefix + namespace + ":" + s.Name}, true
	}
	return subject{}, false
}

// reason words an allowance exactly as Kubernetes does, name before namespace.
func reason(key bindingKey, ref rbacv1.RoleRef, s rbacv1.Subject) string {
	kind, name := "ClusterRoleBinding", key.name
	if key.namespace != "" {
		kind, name = "RoleBinding", key.name+"/"+key.namespace
	}
	who := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		who += "/" + s.Namespace
		if s.Namespace == "" {
			who += key.namespace
		}
	}
	return fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, name, ref.Kind, ref.Name, s.Kind, who)
}
