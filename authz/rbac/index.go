package rbac

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
)

// index is the immutable data for decisions.
type index struct {
	roles  *table[roleKey, []rbacv1.PolicyRule]
	grants *table[subject, []*grant]
}

// subject is a user or group in the bindings of one namespace or, with an empty namespace, in the
// cluster role bindings. Service accounts are users.
type subject struct{ namespace, kind, name string }

// roleKey identifies a role; a cluster role has no namespace.
type roleKey struct{ namespace, name string }

func (k roleKey) missing() string {
	kind := "clusterrole"
	if k.namespace != "" {
		kind = "role"
	}
	return fmt.Sprintf("%s.%s %q not found", kind, rbacv1.GroupName, k.name)
}

// grant is one subject of one binding. It does not change.
type grant struct {
	binding bindingKey
	role    roleKey
	reason  string
	// repeats reports that an earlier grant of the subject has the same role. Decisions skip it.
	repeats bool
}

// bindingKey identifies a binding; a cluster role binding has no namespace.
type bindingKey struct{ namespace, name string }

// builder makes each index from the previous one. Both share the parts that did not change.
type builder struct {
	log          logr.Logger
	clusterRoles map[string]*rbacv1.ClusterRole
	roles        draft[roleKey, []rbacv1.PolicyRule]
	grants       draft[subject, []*grant]

	// For the current batch:
	ownSlices           map[subject]bool             // the slices in grants have been cloned
	held                map[subject]map[roleKey]bool // the roles of subjects with many grants
	clusterRolesChanged bool
}

func newBuilder(log logr.Logger) *builder {
	return &builder{
		log: log, clusterRoles: make(map[string]*rbacv1.ClusterRole),
		roles: newDraft[roleKey, []rbacv1.PolicyRule](), grants: newDraft[subject, []*grant](),
	}
}

// apply returns the index after a batch of changes.
func (b *builder) apply(batch []change) *index {
	b.ownSlices, b.held, b.clusterRolesChanged = make(map[subject]bool), map[subject]map[roleKey]bool{}, false
	for _, c := range batch {
		c(b)
	}
	if b.clusterRolesChanged {
		b.resolveClusterRoles()
	}
	return &index{roles: b.roles.publish(), grants: b.grants.publish()}
}

// own returns a copy of the grants of s that may be changed.
func (b *builder) own(s subject) []*grant {
	grants, _ := b.grants.get(s)
	if !b.ownSlices[s] {
		b.ownSlices[s] = true
		return slices.Clone(grants)
	}
	return grants
}

// bind adds the grants of a binding.
func (b *builder) bind(key bindingKey, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	role, ok := resolve(key, ref)
	if !ok {
		return
	}
	for _, s := range subjects {
		if who, ok := subjectOf(key, s); ok {
			grants := b.own(who)
			repeats := b.holds(who, grants, role)
			b.grants.set(who, append(grants, &grant{binding: key, role: role, reason: reason(key, ref, s), repeats: repeats}))
		}
	}
}

// manyGrants is the number of grants of a subject from which a set of their roles is worth its memory.
const manyGrants = 32

// holds reports whether one of the grants of a subject, to which a grant of role is about to be added, has that role.
func (b *builder) holds(who subject, grants []*grant, role roleKey) bool {
	if len(grants) < manyGrants {
		return slices.ContainsFunc(grants, func(g *grant) bool { return g.role == role })
	}
	roles := b.held[who]
	if roles == nil {
		roles = make(map[roleKey]bool, 2*len(grants))
		for _, g := range grants {
			roles[g.role] = true
		}
		b.held[who] = roles
	}
	held := roles[role]
	roles[role] = true
	return held
}

// unbind removes the grants of a binding.
func (b *builder) unbind(key bindingKey, subjects []rbacv1.Subject) {
	for _, s := range subjects {
		who, ok := subjectOf(key, s)
		if _, granted := b.grants.get(who); !ok || !granted {
			continue
		}
		delete(b.held, who)
		left := withoutBinding(b.own(who), key)
		if len(left) == 0 {
			b.grants.delete(who)
			delete(b.ownSlices, who)
			continue
		}
		b.grants.set(who, left)
	}
}

// withoutBinding removes the grants of a binding. The first grant left of each role no longer repeats one.
func withoutBinding(grants []*grant, key bindingKey) []*grant {
	freed := map[roleKey]bool{}
	left := slices.DeleteFunc(grants, func(g *grant) bool {
		if g.binding == key && !g.repeats {
			freed[g.role] = true
		}
		return g.binding == key
	})
	for i, g := range left {
		if freed[g.role] {
			delete(freed, g.role)
			first := *g
			first.repeats = false
			left[i] = &first
		}
	}
	return left
}

// resolve returns the role of a binding. A cluster role binding cannot refer to a namespaced role.
func resolve(key bindingKey, ref rbacv1.RoleRef) (roleKey, bool) {
	switch {
	case ref.Kind == "ClusterRole":
		return roleKey{name: ref.Name}, true
	case ref.Kind == "Role" && key.namespace != "":
		return roleKey{key.namespace, ref.Name}, true
	}
	return roleKey{}, false
}

// subjectOf returns the subject that a binding names. A service account without a namespace is in
// that of the binding.
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

// reason formats the reason for Allow like Kubernetes, name before namespace.
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
