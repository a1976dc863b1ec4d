package kube

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of what drivers say of themselves.
const (
	maxNodeID           = 256
	minAllocatablePause = 10 // seconds
)

func csiDrivers() apiserver.Resource {
	type driver = storagev1.CSIDriver
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return apiserver.Resource{
		Group:   storagev1.GroupName,
		Version: "v1",
		Kind:    "CSIDriver",
		Plural:  "csidrivers",
		New:     func() runtime.Object { return &driver{} },
		NewList: func() runtime.Object { return &storagev1.CSIDriverList{} },
		Strategy: strategy[*driver]{
			complete: completeCSIDriver,
			create: func(d *driver) {
				d.Spec.PreventPodSchedulingIfMissing = nil // off by default upstream
			},
			update: func(d, old *driver) {
				if old.Spec.PreventPodSchedulingIfMissing == nil {
					d.Spec.PreventPodSchedulingIfMissing = nil
				}
				d.Generation = nextGeneration(old.Generation, differ(&d.Spec, &old.Spec))
			},
			validate: validateCSIDriver,
			validateUpdate: func(d, old *driver) field.ErrorList {
				ps := problems{list: validateCSIDriver(d)}
				ps.immutable(field.NewPath("spec", "attachedRequired"), d.Spec.AttachRequired, old.Spec.AttachRequired)
				ps.immutable(field.NewPath("spec", "volumeLifecycleModes"), d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			boolean("AttachRequired", doc["attachRequired"], func(d *driver) bool { return deref(d.Spec.AttachRequired) }),
			boolean("PodInfoOnMount", doc["podInfoOnMount"], func(d *driver) bool { return deref(d.Spec.PodInfoOnMount) }),
			boolean("StorageCapacity", doc["storageCapacity"], func(d *driver) bool { return deref(d.Spec.StorageCapacity) }),
			text("TokenRequests", doc["tokenRequests"], func(d *driver) string {
				if d.Spec.TokenRequests == nil {
					return "<unset>"
				}
				var audiences []string
				for _, r := range d.Spec.TokenRequests {
					audiences = append(audiences, r.Audience)
				}
				return strings.Join(audiences, ",")
			}),
			boolean("RequiresRepublish", doc["requiresRepublish"], func(d *driver) bool { return deref(d.Spec.RequiresRepublish) }),
			text("Modes", doc["volumeLifecycleModes"], func(d *driver) string { return orNone(joined(d.Spec.VolumeLifecycleModes)) }),
			age[*driver](),
		},
	}
}

func joined[T ~string](list []T) string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return strings.Join(out, ",")
}

func completeCSIDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	setIfNil(&s.AttachRequired, true)
	setIfNil(&s.PodInfoOnMount, false)
	setIfNil(&s.StorageCapacity, false)
	setIfNil(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	setIfNil(&s.RequiresRepublish, false)
	setIfNil(&s.SELinuxMount, false)
}

func validateCSIDriver(d *storagev1.CSIDriver) field.ErrorList {
	var ps problems
	p, s := field.NewPath("spec"), &d.Spec
	if s.FSGroupPolicy != nil {
		oneOf(&ps, p.Child("fsGroupPolicy"), *s.FSGroupPolicy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	audiences := map[string]bool{}
	for i, r := range s.TokenRequests {
		at := p.Child("tokenRequests").Index(i)
		if audiences[r.Audience] {
			ps.add(field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		audiences[r.Audience] = true
		if n := r.ExpirationSeconds; n != nil {
			ps.valid(*n >= minTokenSeconds, at.Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes")
			ps.valid(*n <= maxTokenSeconds, at.Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds")
		}
	}
	for _, mode := range s.VolumeLifecycleModes {
		oneOf(&ps, p.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil {
		ps.valid(*n >= minAllocatablePause, p.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds")
	}
	ps.valid(s.ServiceAccountTokenInSecrets == nil || len(s.TokenRequests) > 0, p.Child("serviceAccountTokenInSecrets"),
		s.ServiceAccountTokenInSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	return ps.list
}

func csiNodes() apiserver.Resource {
	type node = storagev1.CSINode
	return apiserver.Resource{
		Group:   storagev1.GroupName,
		Version: "v1",
		Kind:    "CSINode",
		Plural:  "csinodes",
		New:     func() runtime.Object { return &node{} },
		NewList: func() runtime.Object { return &storagev1.CSINodeList{} },
		Strategy: strategy[*node]{
			validate:       validateCSINode,
			validateUpdate: validateCSINodeUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			number("Drivers", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"], func(n *node) int64 { return int64(len(n.Spec.Drivers)) }),
			age[*node](),
		},
	}
}

func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	var ps problems
	seen := map[string]bool{}
	for i, d := range n.Spec.Drivers {
		p := field.NewPath("spec", "drivers").Index(i)
		checkDriverName(&ps, p.Child("name"), d.Name)
		ps.required(p.Child("nodeID"), d.NodeID)
		ps.valid(len(d.NodeID) <= maxNodeID, p.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID))
		if d.Allocatable != nil {
			ps.notNegative(p.Child("allocatable", "count"), int64(deref(d.Allocatable.Count)))
		}
		ps.unique(!seen[d.Name], p.Child("name"), d.Name)
		seen[d.Name] = true
		for j, key := range d.TopologyKeys {
			ps.required(p, key)
			ps.unique(!slices.Contains(d.TopologyKeys[:j], key), p, key)
			ps.each(p, key, validation.IsQualifiedName(key))
		}
	}
	return ps.list
}

// validateCSINodeUpdate lets drivers come, go, and change how much they can do.
func validateCSINodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	ps := problems{list: validateCSINode(n)}
	for _, was := range old.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == was.Name {
				now.Allocatable, was.Allocatable = nil, nil
				ps.immutable(field.NewPath("spec", "drivers"), &now, &was)
			}
		}
	}
	return ps.list
}

func csiStorageCapacities() apiserver.Resource {
	type capacity = storagev1.CSIStorageCapacity
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return apiserver.Resource{
		Group:      storagev1.GroupName,
		Version:    "v1",
		Kind:       "CSIStorageCapacity",
		Plural:     "csistoragecapacities",
		Namespaced: true,
		New:        func() runtime.Object { return &capacity{} },
		NewList:    func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
		Strategy: strategy[*capacity]{
			validate: func(c *capacity) field.ErrorList {
				var ps problems
				if c.NodeTopology != nil {
					ps.selector(field.NewPath("nodeTopology"), c.NodeTopology)
				}
				ps.subdomain(field.NewPath("storageClassName"), c.StorageClassName)
				if q := c.Capacity; q != nil {
					ps.valid(q.Sign() >= 0, field.NewPath("capacity"), q.String(), "must be greater than or equal to 0")
				}
				return ps.list
			},
			validateUpdate: func(c, old *capacity) field.ErrorList {
				var ps problems
				ps.valid(!differ(c.NodeTopology, old.NodeTopology), field.NewPath("nodeTopology"), c.NodeTopology, "field is immutable")
				ps.valid(c.StorageClassName == old.StorageClassName, field.NewPath("storageClassName"), c.StorageClassName, "field is immutable")
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("StorageClassName", doc["storageClassName"], func(c *capacity) string { return c.StorageClassName }),
			text("Capacity", doc["capacity"], func(c *capacity) string {
				if c.Capacity == nil {
					return "<unset>"
				}
				return c.Capacity.String()
			}),
		},
	}
}
