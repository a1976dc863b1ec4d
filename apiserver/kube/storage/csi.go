package storage

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of what drivers say of themselves.
const (
	maxNodeID           = 256
	minAllocatablePause = 10 // seconds
)

// CSIDrivers returns the resource of the kind CSIDriver.
func CSIDrivers() apiserver.Resource {
	type driver = storagev1.CSIDriver
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return apiserver.For(kinds.CSIDrivers, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*driver]{
			Default: completeCSIDriver,
			Create: func(d *driver) {
				d.Spec.PreventPodSchedulingIfMissing = nil // off by default upstream
			},
			Update: func(d, old *driver) {
				if old.Spec.PreventPodSchedulingIfMissing == nil {
					d.Spec.PreventPodSchedulingIfMissing = nil
				}
				d.Generation = define.NextGeneration(old.Generation, define.Differ(&d.Spec, &old.Spec)) // a new one has none
			},
			Validate: validateCSIDriver,
			ValidateUpdate: func(d, old *driver) field.ErrorList {
				ps := check.Problems{List: validateCSIDriver(d)}
				ps.Immutable(field.NewPath("spec", "attachedRequired"), d.Spec.AttachRequired, old.Spec.AttachRequired)
				ps.Immutable(field.NewPath("spec", "volumeLifecycleModes"), d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Boolean("AttachRequired", doc["attachRequired"], func(d *driver) bool { return optional.Deref(d.Spec.AttachRequired) }),
			column.Boolean("PodInfoOnMount", doc["podInfoOnMount"], func(d *driver) bool { return optional.Deref(d.Spec.PodInfoOnMount) }),
			column.Boolean("StorageCapacity", doc["storageCapacity"], func(d *driver) bool { return optional.Deref(d.Spec.StorageCapacity) }),
			column.Text("TokenRequests", doc["tokenRequests"], func(d *driver) string {
				if d.Spec.TokenRequests == nil {
					return "<unset>"
				}
				var audiences []string
				for _, r := range d.Spec.TokenRequests {
					audiences = append(audiences, r.Audience)
				}
				return strings.Join(audiences, ",")
			}),
			column.Boolean("RequiresRepublish", doc["requiresRepublish"], func(d *driver) bool { return optional.Deref(d.Spec.RequiresRepublish) }),
			column.Text("Modes", doc["volumeLifecycleModes"], func(d *driver) string { return column.OrNone(check.Join(d.Spec.VolumeLifecycleModes)) }),
			column.Age[*driver](),
		},
	})
}

func completeCSIDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	optional.SetIfNil(&s.AttachRequired, true)
	optional.SetIfNil(&s.PodInfoOnMount, false)
	optional.SetIfNil(&s.StorageCapacity, false)
	optional.SetIfNil(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	optional.SetIfNil(&s.RequiresRepublish, false)
	optional.SetIfNil(&s.SELinuxMount, false)
}

func validateCSIDriver(d *storagev1.CSIDriver) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("spec"), &d.Spec
	if s.FSGroupPolicy != nil {
		check.OneOf(&ps, p.Child("fsGroupPolicy"), *s.FSGroupPolicy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	audiences := map[string]bool{}
	for i, r := range s.TokenRequests {
		at := p.Child("tokenRequests").Index(i)
		if audiences[r.Audience] {
			ps.Add(field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		audiences[r.Audience] = true
		if n := r.ExpirationSeconds; n != nil {
			ps.Valid(*n >= podspec.MinTokenSeconds, at.Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes")
			ps.Valid(*n <= podspec.MaxTokenSeconds, at.Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds")
		}
	}
	for _, mode := range s.VolumeLifecycleModes {
		check.OneOf(&ps, p.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil {
		ps.Valid(*n >= minAllocatablePause, p.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds")
	}
	ps.Valid(s.ServiceAccountTokenInSecrets == nil || len(s.TokenRequests) > 0, p.Child("serviceAccountTokenInSecrets"),
		s.ServiceAccountTokenInSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	return ps.List
}

// CSINodes returns the resource of the kind CSINode.
func CSINodes() apiserver.Resource {
	type node = storagev1.CSINode
	return apiserver.For(kinds.CSINodes, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*node]{
			Create:         func(n *node) { noDrivers(n) },
			Update:         func(n, _ *node) { noDrivers(n) },
			Validate:       validateCSINode,
			ValidateUpdate: validateCSINodeUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Number("Drivers", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"], func(n *node) int64 { return int64(len(n.Spec.Drivers)) }),
			column.Age[*node](),
		},
	})
}

// noDrivers has no drivers be null, as they are in Kubernetes, which stores protobuf.
func noDrivers(n *storagev1.CSINode) {
	if len(n.Spec.Drivers) == 0 {
		n.Spec.Drivers = nil
	}
}

func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	var ps check.Problems
	seen := map[string]bool{}
	for i, d := range n.Spec.Drivers {
		p := field.NewPath("spec", "drivers").Index(i)
		podspec.CheckDriverName(&ps, p.Child("name"), d.Name)
		ps.Required(p.Child("nodeID"), d.NodeID)
		ps.Valid(len(d.NodeID) <= maxNodeID, p.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID))
		if d.Allocatable != nil {
			ps.NotNegative(p.Child("allocatable", "count"), int64(optional.Deref(d.Allocatable.Count)))
		}
		ps.Unique(!seen[d.Name], p.Child("name"), d.Name)
		seen[d.Name] = true
		keys := check.Seen[string]{}
		for _, key := range d.TopologyKeys {
			ps.Required(p, key)
			ps.Unique(!keys.Again(key), p, key)
			ps.Each(p, key, validation.IsQualifiedName(key))
		}
	}
	return ps.List
}

// validateCSINodeUpdate allows adding and removing drivers, and changing how many volumes they
// attach.
func validateCSINodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	ps := check.Problems{List: validateCSINode(n)}
	byName := map[string][]int{}
	for i := range n.Spec.Drivers {
		byName[n.Spec.Drivers[i].Name] = append(byName[n.Spec.Drivers[i].Name], i)
	}
	for _, was := range old.Spec.Drivers {
		for _, k := range byName[was.Name] {
			now, was := n.Spec.Drivers[k], was
			now.Allocatable, was.Allocatable = nil, nil
			ps.Immutable(field.NewPath("spec", "drivers"), &now, &was)
		}
	}
	return ps.List
}

// CSIStorageCapacities returns the resource of the kind CSIStorageCapacity.
func CSIStorageCapacities() apiserver.Resource {
	type capacity = storagev1.CSIStorageCapacity
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return apiserver.For(kinds.CSIStorageCapacities, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*capacity]{
			Validate: validateCapacity,
			ValidateUpdate: func(c, old *capacity) field.ErrorList {
				ps := check.Problems{List: validateCapacity(c)}
				ps.Valid(!define.Differ(c.NodeTopology, old.NodeTopology), field.NewPath("nodeTopology"), c.NodeTopology, "field is immutable")
				ps.Valid(c.StorageClassName == old.StorageClassName, field.NewPath("storageClassName"), c.StorageClassName, "field is immutable")
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("StorageClassName", doc["storageClassName"], func(c *capacity) string { return c.StorageClassName }),
			column.Text("Capacity", doc["capacity"], func(c *capacity) string {
				if c.Capacity == nil {
					return "<unset>"
				}
				return c.Capacity.String()
			}),
		},
	})
}

func validateCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	var ps check.Problems
	ps.Selector(field.NewPath("nodeTopology"), c.NodeTopology)
	ps.Subdomain(field.NewPath("storageClassName"), c.StorageClassName)
	if q := c.Capacity; q != nil {
		ps.Valid(q.Sign() >= 0, field.NewPath("capacity"), q.String(), "must be greater than or equal to 0")
	}
	return ps.List
}
