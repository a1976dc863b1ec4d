// Package policy reads the configuration files of a scheduler: the Policy that kube-scheduler had with
// --policy-config-file, and the KubeSchedulerConfiguration that it has with --config. Both become profiles of
// a [schedule.Scheduler].
//
//	file, err := policy.DecodeConfiguration(data)
//	if err != nil { ... }
//	for _, warning := range file.Warnings() { ... }
//	config := schedule.Config{ ... }
//	err = file.Apply(&config, policy.Parts{Volumes: volumes, Together: together.Selector})
//
// # Model
//
// One table has a row for each plugin of Kubernetes v1.36, and for those that only a Policy can name. A row
// has the constructors of the plugin's predicate and priority. The names of a Policy are names of rows.
//
// A KubeSchedulerConfiguration enables and disables plugins by extension point as in Kubernetes. Of these
// points, filter and score choose predicates and priorities, postFilter says whether pods preempt others, and
// preBind whether volumes are bound. What the others do is a part of these, or of the scheduler itself.
//
// Pods with resource claims, or in a scheduling group, stay pending whatever the file says; see
// predicates.Unsupported.
//
// # Failure
//
// The decoders refuse unknown and duplicate fields, unknown names, and values that Kubernetes refuses; the
// errors begin with the path of the field. Fields that have no effect are named by Warnings.
//
// # Not included
//
// The plugins DynamicResources, NodeDeclaredFeatures, GangScheduling, TopologyPlacementGenerator and
// PodGroupPodsCount are refused where a file enables them by name, and are not in the default profile. A Policy
// that names one of these is refused too: MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount and
// MaxCinderVolumeCount.
//
// Extenders are returned as the file has them, for the program to call.
package policy

import (
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/legacy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// File is a decoded configuration file.
type File struct {
	profiles  []profile
	extenders []Extender
	// firstBackoff and maxBackoff are zero if the file does not set them.
	firstBackoff, maxBackoff time.Duration
	warnings                 []string
}

// Parts are the parts of profiles that need caches.
type Parts struct {
	// Volumes is the plugin VolumeBinding. Nil means that claims are not looked at, and a file that names
	// the plugin is refused.
	Volumes VolumeBinder
	// Restrictions, Limits and Zone are the plugins VolumeRestrictions, NodeVolumeLimits and VolumeZone, such as
	// those of package volumes. The same holds for them.
	Restrictions, Limits, Zone schedule.Predicate
	// Services finds services by their namespace, for a Policy with serviceAffinity or serviceAntiAffinity, which
	// is refused without. Their changes must be a source of the scheduler.
	Services legacy.Services
	// Together is the Selector of schedule.SpreadDefaults. Nil means that pods without topology spread
	// constraints are not spread.
	Together func(*corev1.Pod) labels.Selector
}

// VolumeBinder is a predicate that also binds volumes, such as a volumebinding.Binder.
type VolumeBinder interface {
	schedule.Predicate
	// Within returns the predicate with another limit for how long it waits until volumes are bound. If timeout
	// is negative, it does not bind volumes.
	Within(timeout time.Duration) schedule.Predicate
}

// Extenders returns the extenders of the file. The extended resources that the scheduler must ignore are
// ignored by the profiles.
func (f *File) Extenders() []Extender { return f.extenders }

// Warnings returns a sentence for each field of the file that has no effect.
func (f *File) Warnings() []string { return f.warnings }

// Profiles returns the profiles of the file. It fails if the file names a plugin that parts do not have.
func (f *File) Profiles(parts Parts) ([]schedule.Profile, error) {
	var list []schedule.Profile
	for i := range f.profiles {
		p, err := f.profiles[i].build(&parts)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Apply changes c to what the file says: its Profiles, instead of Name, Predicates and Priorities, and its
// backoff.
func (f *File) Apply(c *schedule.Config, parts Parts) error {
	profiles, err := f.Profiles(parts)
	if err != nil {
		return err
	}
	c.Name, c.Predicates, c.Priorities, c.Profiles = "", nil, nil, profiles
	if f.firstBackoff != 0 {
		c.InitialBackoff, c.MaxBackoff = f.firstBackoff, f.maxBackoff
	}
	return nil
}
