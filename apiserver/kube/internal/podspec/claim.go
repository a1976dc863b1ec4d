package podspec

import (
	"slices"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckVolumeMode checks the mode of a volume, if it has one.
func CheckVolumeMode(ps *check.Problems, p *field.Path, mode *corev1.PersistentVolumeMode) {
	if mode != nil {
		check.OneOf(ps, p, *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

// CheckAccessModes checks the access modes of a volume or a claim.
func CheckAccessModes(ps *check.Problems, p *field.Path, modes []corev1.PersistentVolumeAccessMode) {
	single, other := false, false
	for _, m := range modes {
		check.OneOf(ps, p, m, accessModes...)
		single = single || m == corev1.ReadWriteOncePod
		other = other || m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	}
	ps.Allowed(!single || !other, p, "may not use ReadWriteOncePod with other access modes")
}

// CompleteClaimSpec defaults the spec of a claim or of a template of claims.
func CompleteClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	optional.SetIfNil(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(s.Resources.Limits)
	RoundUp(s.Resources.Requests)
}

// MatchDataSources fills the one of dataSource and dataSourceRef that is empty.
func MatchDataSources(s *corev1.PersistentVolumeClaimSpec) {
	switch from, ref := s.DataSource, s.DataSourceRef; {
	case from != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{Kind: from.Kind, Name: from.Name, APIGroup: from.DeepCopy().APIGroup}
	case from == nil && ref != nil && optional.Deref(ref.Namespace) == "":
		s.DataSource = &corev1.TypedLocalObjectReference{Kind: ref.Kind, Name: ref.Name, APIGroup: ref.DeepCopy().APIGroup}
	}
}

// CheckClaim checks the spec of a claim or of a template of claims.
func CheckClaim(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	ps.Present(len(spec.AccessModes) > 0, p.Child("accessModes"), "at least 1 access mode is required")
	if spec.Selector != nil {
		ps.Selector(p.Child("selector"), spec.Selector)
	}
	CheckAccessModes(ps, p.Child("accessModes"), spec.AccessModes)
	at := p.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok {
		ps.Valid(size.Sign() > 0, at, size.String(), "must be greater than zero")
	} else {
		ps.Add(field.Required(at, ""))
	}
	if optional.Deref(spec.StorageClassName) != "" {
		ps.Subdomain(p.Child("storageClassName"), *spec.StorageClassName)
	}
	CheckVolumeMode(ps, p.Child("volumeMode"), spec.VolumeMode)
	checkDataSources(ps, p, spec)
	if optional.Deref(spec.VolumeAttributesClassName) != "" {
		ps.Subdomain(p.Child("volumeAttributesClassName"), *spec.VolumeAttributesClassName)
	}
}

func checkDataSources(ps *check.Problems, p *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	from, ref := spec.DataSource, spec.DataSourceRef
	if from != nil {
		checkDataSource(ps, p.Child("dataSource"), from.APIGroup, from.Kind, from.Name)
	}
	if ref == nil {
		return
	}
	checkDataSource(ps, p.Child("dataSourceRef"), ref.APIGroup, ref.Kind, ref.Name)
	switch {
	case optional.Deref(ref.Namespace) != "":
		ps.DNSLabel(p.Child("dataSourceRef", "namespace"), *ref.Namespace)
		ps.Valid(from == nil, p, p.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
	case from != nil:
		ps.Valid(!define.Differ(from.APIGroup, ref.APIGroup) && from.Kind == ref.Kind && from.Name == ref.Name,
			p, p.Child("dataSource"), "must match dataSourceRef")
	}
}

func checkDataSource(ps *check.Problems, p *field.Path, group *string, kind, name string) {
	ps.Required(p.Child("name"), name)
	ps.Required(p.Child("kind"), kind)
	if optional.Deref(group) != "" {
		ps.Subdomain(p.Child("apiGroup"), *group)
		return
	}
	ps.Valid(kind == "PersistentVolumeClaim", p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
}

// CheckSize checks the size of a volume.
func CheckSize(ps *check.Problems, p *field.Path, q resource.Quantity) {
	ps.Valid(q.Value() >= 0, p, q.Value(), "must be a valid resource quantity")
}
