package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func nodes() apiserver.Resource {
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "Node",
		Plural:     "nodes",
		ShortNames: []string{"no"},
		New:        func() runtime.Object { return &corev1.Node{} },
		NewList:    func() runtime.Object { return &corev1.NodeList{} },
		Strategy: strategy[*corev1.Node]{
			complete:       completeNode,
			update:         func(node, old *corev1.Node) { old.Status.DeepCopyInto(&node.Status) },
			validate:       validateNode,
			validateUpdate: validateNodeUpdate,
		}.erase(),
		Columns: nodeColumns(),
		Fields: selectable[*corev1.Node]{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*corev1.Node]{
				update:         func(node, old *corev1.Node) { old.Spec.DeepCopyInto(&node.Spec) },
				validateUpdate: validateNodeUpdate,
			}),
		},
	}
}

// completeNode offers pods all there is where nothing is set aside, and keeps
// podCIDR equal to the first of podCIDRs. A new node keeps the status it is
// created with: a kubelet registers with it.
func completeNode(node *corev1.Node) {
	s, spec := &node.Status, &node.Spec
	roundUp(s.Capacity)
	if s.Allocatable == nil && s.Capacity != nil {
		s.Allocatable = s.Capacity.DeepCopy()
	}
	roundUp(s.Allocatable)
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
		text("Status", "The status of the node", nodeStatus),
		text("Roles", "The roles of the node", nodeRoles),
		age[*corev1.Node](),
		text("Version", info["kubeletVersion"], func(n *corev1.Node) string { return n.Status.NodeInfo.KubeletVersion }),
	}
	return append(columns, wide(
		text("Internal-IP", addresses, func(n *corev1.Node) string { return nodeAddress(n, corev1.NodeInternalIP) }),
		text("External-IP", addresses, func(n *corev1.Node) string { return nodeAddress(n, corev1.NodeExternalIP) }),
		text("OS-Image", info["osImage"], func(n *corev1.Node) string { return orUnknown(n.Status.NodeInfo.OSImage) }),
		text("Kernel-Version", info["kernelVersion"], nodeKernel),
		text("Container-Runtime", info["containerRuntimeVersion"], func(n *corev1.Node) string {
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
	return orNone(strings.Join(slices.Sorted(maps.Keys(roles)), ","))
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
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
		return unknown
	}
	return s
}
