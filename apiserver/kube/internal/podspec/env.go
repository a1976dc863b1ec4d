package podspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkEnv(ps *check.Problems, p *field.Path, env []corev1.EnvVar, scope *scope) {
	for i, v := range env {
		at := p.Index(i)
		if ps.Required(at.Child("name"), v.Name) {
			ps.Each(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName(v.Name))
		}
		if v.ValueFrom != nil {
			checkEnvSource(ps, at.Child("valueFrom"), v.Value, v.ValueFrom, scope)
		}
	}
}

func checkEnvSource(ps *check.Problems, p *field.Path, value string, from *corev1.EnvVarSource, scope *scope) {
	n := 0
	if r := from.FieldRef; r != nil {
		n++
		checkFieldRef(ps, p.Child("fieldRef"), r, envFields)
	}
	if r := from.ResourceFieldRef; r != nil {
		n++
		checkResourceRef(ps, p.Child("resourceFieldRef"), r)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		checkKeyRef(ps, p.Child("configMapKeyRef"), r.Name, r.Key)
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		checkKeyRef(ps, p.Child("secretKeyRef"), r.Name, r.Key)
	}
	if r := from.FileKeyRef; r != nil {
		n++
		checkFileRef(ps, p.Child("fileKeyRef"), r)
	}
	switch {
	case n == 0:
		ps.Add(field.Invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case value != "":
		ps.Add(field.Invalid(p, "", "may not be specified when `value` is not empty"))
	case n > 1:
		ps.Add(field.Invalid(p, "", "may not have more than one field specified at a time"))
	}
}

func checkEnvFrom(ps *check.Problems, p *field.Path, sources []corev1.EnvFromSource) {
	for i, s := range sources {
		at := p.Index(i)
		if s.Prefix != "" {
			ps.Each(at.Child("prefix"), s.Prefix, validation.IsRelaxedEnvVarName(s.Prefix))
		}
		if s.ConfigMapRef != nil {
			ps.Named(at.Child("configMapRef", "name"), s.ConfigMapRef.Name)
		}
		if s.SecretRef != nil {
			ps.Named(at.Child("secretRef", "name"), s.SecretRef.Name)
		}
		switch {
		case s.ConfigMapRef == nil && s.SecretRef == nil:
			ps.Add(field.Invalid(p, "", "must specify one of: `configMapRef` or `secretRef`"))
		case s.ConfigMapRef != nil && s.SecretRef != nil:
			ps.Add(field.Invalid(p, "", "may not have more than one field specified at a time"))
		}
	}
}

func checkKeyRef(ps *check.Problems, p *field.Path, name, key string) {
	// An empty name is invalid rather than missing; so it is upstream.
	ps.Subdomain(p.Child("name"), name)
	if ps.Required(p.Child("key"), key) {
		ps.Each(p.Child("key"), key, validation.IsConfigMapKey(key))
	}
}

// checkFileRef checks a variable that another container writes to a file, in a
// volume that is the pod's own.
func checkFileRef(ps *check.Problems, p *field.Path, r *corev1.FileKeySelector) {
	if ps.Required(p.Child("key"), r.Key) {
		ps.Each(p.Child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	volume := p.Child("volumeName")
	if ps.Required(volume, r.VolumeName) {
		ps.DNSLabel(volume, r.VolumeName)
	}
	if ps.Required(p.Child("path"), r.Path) {
		checkBacksteps(ps, p.Child("path"), r.Path)
	}
}

// checkFileVolumes requires the volumes of variables in files to be empty directories.
func checkFileVolumes(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	eachContainer(p, spec, func(p *field.Path, c *corev1.Container) {
		for i, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			at, name := p.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName"), e.ValueFrom.FileKeyRef.VolumeName
			if i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); i < 0 {
				ps.Add(field.NotFound(at, name))
			} else {
				ps.Valid(spec.Volumes[i].EmptyDir != nil, at, name, "referenced volume must be of type emptyDir")
			}
		}
	})
}

// The fields of its own that a pod can show to its containers
// (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/), sorted.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
	}
	// otherFields are known but can be shown nowhere.
	otherFields = []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"}
)

func checkFieldRef(ps *check.Problems, p *field.Path, r *corev1.ObjectFieldSelector, allowed []string) {
	if !ps.Required(p.Child("apiVersion"), r.APIVersion) || !ps.Required(p.Child("fieldPath"), r.FieldPath) {
		return
	}
	path, key, subscripted := cutSubscript(r.FieldPath)
	labelled := path == "metadata.labels" || path == "metadata.annotations"
	known := slices.Contains(envFields, path) || slices.Contains(volumeFields, path) || slices.Contains(otherFields, path)
	switch {
	case r.APIVersion != "v1":
		ps.Add(field.Invalid(p.Child("fieldPath"), r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion))
	case !known, subscripted && !labelled:
		ps.Add(field.Invalid(p.Child("fieldPath"), r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath))
	case subscripted && path == "metadata.annotations":
		key = strings.ToLower(key)
		ps.Each(p, key, validation.IsQualifiedName(key))
	case subscripted:
		ps.Each(p, key, validation.IsQualifiedName(key))
	default:
		check.OneOf(ps, p.Child("fieldPath"), path, allowed...)
	}
}

// cutSubscript splits "metadata.labels['app']" into "metadata.labels" and "app".
func cutSubscript(fieldPath string) (path, key string, ok bool) {
	rest, ok := strings.CutSuffix(fieldPath, "']")
	if ok {
		path, key, ok = strings.Cut(rest, "['")
	}
	if !ok || path == "" {
		return fieldPath, "", false
	}
	return path, key, true
}

// containerAmounts are the resources of itself that a container can be shown.
var containerAmounts = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory",
	"requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

func checkResourceRef(ps *check.Problems, p *field.Path, r *corev1.ResourceFieldSelector) {
	if ps.Required(p.Child("resource"), r.Resource) && !hugeAmount(r.Resource) {
		check.OneOf(ps, p.Child("resource"), r.Resource, containerAmounts...)
	}
	checkDivisor(ps, p.Child("divisor"), r)
}

func hugeAmount(resource string) bool {
	return strings.HasPrefix(resource, "limits.hugepages-") || strings.HasPrefix(resource, "requests.hugepages-")
}

// checkDivisor allows the units that a resource may be shown in.
func checkDivisor(ps *check.Problems, p *field.Path, r *corev1.ResourceFieldSelector) {
	if r.Divisor.IsZero() {
		return
	}
	units, of := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}, ""
	switch r.Resource {
	case "limits.cpu", "requests.cpu":
		units, of = []string{"1m", "1"}, "cpu"
	case "limits.memory", "requests.memory":
		of = "memory"
	case "limits.ephemeral-storage", "requests.ephemeral-storage":
		of = "local ephemeral storage"
	default:
		if !hugeAmount(r.Resource) {
			return
		}
		of = "hugepages"
	}
	list := strings.Join(units, ", ")
	if of == "cpu" {
		list = "1m and 1"
	}
	ps.Valid(slices.Contains(units, r.Divisor.String()),
		p, r.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", list, of))
}
