package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Nodes returns the resource of the kind Node.
func Nodes() apiserver.Resource {
	return apiserver.For(kinds.Nodes, apiserver.Resource{
		Strategy: define.Strategy[*corev1.Node]{
			Default: completeNode,
			Create:  dropNodeConfig,
			Update: func(node, old *corev1.Node) {
				old.Status.DeepCopyInto(&node.Status)
				dropNodeConfig(node)
			},
			Validate:       validateNode,
			ValidateUpdate: validateNodeUpdate,
		}.Erase(),
		Columns: nodeColumns(),
		Fields: define.Fields[*corev1.Node]{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*corev1.Node]{
				Update: func(node, old *corev1.Node) {
					old.Spec.DeepCopyInto(&node.Spec)
					dropNodeConfig(node)
				},
				ValidateUpdate: validateNodeChange,
			}),
		},
	})
}

// dropNodeConfig drops the configuration of kubelets by objects, which Kubernetes had until v1.24.
func dropNodeConfig(node *corev1.Node) {
	//lint:ignore SA1019 old clients still send it
	node.Spec.ConfigSource, node.Status.Config = nil, nil
}

// completeNode defaults the allocatable resources to the capacity and keeps podCIDR equal to the
// first of podCIDRs. A new node keeps its status, because a kubelet registers with it.
func completeNode(node *corev1.Node) {
	s, spec := &node.Status, &node.Spec
	podspec.RoundUp(s.Capacity)
	if s.Allocatable == nil && s.Capacity != nil {
		s.Allocatable = s.Capacity.DeepCopy()
	}
	podspec.RoundUp(s.Allocatable)
	switch {
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	case len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	}
}

func nodeColumns() []apiserver.Column {
	info, addresses := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	columns := []apiserver.Column{
		column.Text("Status", "The status of the node", nodeStatus),
		column.Text("Roles", "The roles of the node", nodeRoles),
		column.Age[*corev1.Node](),
		column.Text("Version", info["kubeletVersion"], func(n *corev1.Node) string { return n.Status.NodeInfo.KubeletVersion }),
	}
	return append(columns, column.Wide(
		column.Text("Internal-IP", addresses, func(n *corev1.Node) string { return nodeAddress(n, corev1.NodeInternalIP) }),
		column.Text("External-IP", addresses, func(n *corev1.Node) string { return nodeAddress(n, corev1.NodeExternalIP) }),
		column.Text("OS-Image", info["osImage"], func(n *corev1.Node) string { return orUnknown(n.Status.NodeInfo.OSImage) }),
		column.Text("Kernel-Version", info["kernelVersion"], nodeKernel),
		column.Text("Container-Runtime", info["containerRuntimeVersion"], func(n *corev1.Node) string {
			return orUnknown(n.Status.NodeInfo.ContainerRuntimeVersion)
		}),
	)...)
}

func nodeStatus(node *corev1.Node) string {
	s := "Unknown"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			s = "NotReady"
			if c.Status == corev1.ConditionTrue {
				s = "Ready"
			}
		}
	}
	if node.Spec.Unschedulable {
		s += ",SchedulingDisabled"
	}
	return s
}

// The labels that tell a node's roles.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

func nodeRoles(node *corev1.Node) string {
	roles := map[string]bool{}
	for key, value := range node.Labels {
		role, ok := strings.CutPrefix(key, rolePrefix)
		if key == roleLabel {
			role, ok = value, true
		}
		if ok && role != "" {
			roles[role] = true
		}
	}
	return column.OrNone(strings.Join(slices.Sorted(maps.Keys(roles)), ","))
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return column.None
}

func nodeKernel(node *corev1.Node) string {
	kernel := orUnknown(node.Status.NodeInfo.KernelVersion)
	if arch := node.Status.NodeInfo.Architecture; arch != "" {
		kernel += " (" + arch + ")"
	}
	return kernel
}

func orUnknown(s string) string {
	if s == "" {
		return column.Unknown
	}
	return s
}

func validateNode(node *corev1.Node) field.ErrorList {
	var ps check.Problems
	checkNodeAnnotations(&ps, node.Annotations)
	// Upstream looks for taints at this path, although they are in the spec.
	checkTaints(&ps, field.NewPath("metadata", "taints"), node.Spec.Taints)
	checkNodeStatus(&ps, &node.Status)
	if swap := node.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil {
		// Upstream has this path too.
		ps.Valid(*swap.Capacity > 0, field.NewPath("metadata", "nodeSwapStatus", "capacity"), *swap.Capacity, "must be greater than zero")
	}
	checkPodCIDRs(&ps, field.NewPath("spec", "podCIDRs"), node.Spec.PodCIDRs)
	return ps.List
}

// validateNodeUpdate checks the object, and then the change. Kubernetes lists what both find twice.
func validateNodeUpdate(node, old *corev1.Node) field.ErrorList {
	return append(validateNode(node), validateNodeChange(node, old)...)
}

// featureName matches the name of a feature that a kubelet declares.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[A-Z][a-zA-Z0-9]*)*$`)

func checkNodeStatus(ps *check.Problems, s *corev1.NodeStatus) {
	checkAmounts(ps, field.NewPath("status", "capacity"), s.Capacity)
	checkAmounts(ps, field.NewPath("status", "allocatable"), s.Allocatable)
	for i, name := range s.DeclaredFeatures {
		at := field.NewPath("status", "declaredFeatures").Index(i)
		ps.Valid(featureName.MatchString(name), at, name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
			"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name))
		if i > 0 {
			ps.Unique(name != s.DeclaredFeatures[i-1], at, name)
			ps.Valid(name >= s.DeclaredFeatures[i-1], at, name, "list must be sorted alphabetically")
		}
	}
}

func validateNodeChange(node, old *corev1.Node) field.ErrorList {
	var ps check.Problems
	checkNodeAnnotations(&ps, node.Annotations)
	checkNodeStatus(&ps, &node.Status)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range node.Status.Addresses {
		ps.Unique(!seen[a], field.NewPath("status", "addresses").Index(i), a)
		seen[a] = true
	}
	spec := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(node.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		ps.Add(field.Forbidden(spec.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`))
	}
	if old.Spec.ProviderID != "" && node.Spec.ProviderID != old.Spec.ProviderID {
		ps.Add(field.Forbidden(spec.Child("providerID"), `node updates may not change providerID except from "" to valid`))
	}
	checkTaints(&ps, field.NewPath("metadata", "taints"), node.Spec.Taints)
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		ps.Add(field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return ps.List
}

// taintsAnnotation held the taints of a node before it had a field for them.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// checkNodeAnnotations checks the annotations that stand for fields.
func checkNodeAnnotations(ps *check.Problems, annotations map[string]string) {
	at := field.NewPath("metadata", "annotations")
	if text := annotations[taintsAnnotation]; text != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			ps.Add(field.Invalid(at, taintsAnnotation, err.Error()))
		}
		checkTaints(ps, at.Child(taintsAnnotation), taints)
	}
	text := annotations[corev1.PreferAvoidPodsAnnotationKey]
	if text == "" {
		return
	}
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		ps.Add(field.Invalid(at.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error()))
		return
	}
	for i, entry := range avoid.PreferAvoidPods {
		at, owner := at.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature"), entry.PodSignature.PodController
		ps.Present(owner != nil, at, "")
		ps.Valid(owner == nil || optional.Deref(owner.Controller), at.Child("PodController", "Controller"), false, "must point to a controller")
	}
}

func checkTaints(ps *check.Problems, p *field.Path, taints []corev1.Taint) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range taints {
		at := p.Index(i)
		ps.All(metavalidation.ValidateLabelName(t.Key, at.Child("key")))
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			ps.Add(field.Invalid(at.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		check.RequiredOneOf(ps, at.Child("effect"), t.Effect, podspec.TaintEffects...)
		id := identity{t.Key, t.Effect}
		if seen[id] {
			duplicate := field.Duplicate(at, t)
			duplicate.Detail = "taints must be unique by key and effect pair"
			ps.Add(duplicate)
		}
		seen[id] = true
	}
}

// checkAmounts checks what a node has. Upstream spells the path with dots.
func checkAmounts(ps *check.Problems, p *field.Path, list corev1.ResourceList) {
	for _, name := range check.SortedKeys(list) {
		podspec.CheckAmount(ps, p.Child(string(name)), name, list[name])
	}
}

// checkPodCIDRs allows one range for each IP family.
func checkPodCIDRs(ps *check.Problems, p *field.Path, cidrs []string) {
	families := map[bool]int{}
	for i, cidr := range cidrs {
		ps.All(validation.IsValidCIDRForLegacyField(p.Index(i), cidr, true, nil))
		prefix, err := netip.ParsePrefix(cidr)
		families[err == nil && prefix.Addr().Is4()]++
	}
	if families[true] > 1 || families[false] > 1 {
		ps.Add(field.Invalid(p, cidrs, "may specify no more than one CIDR for each IP family"))
	}
}
