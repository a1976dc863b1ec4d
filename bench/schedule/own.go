package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/volumebinding"
	"github.com/planekit/planekit/schedule/volumes"
	related "github.com/planekit/planekit/schedule/workload"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ownProfile returns the predicates and priorities that package plane joins, in a cluster without services
// and volumes.
func ownProfile() ([]schedule.Predicate, []schedule.Weighted, error) {
	claims, persistent, classes := localcache.NewMap[*corev1.PersistentVolumeClaim](), localcache.NewMap[*corev1.PersistentVolume](), localcache.NewMap[*storagev1.StorageClass]()
	checks, err := volumes.New(volumes.Config{Claims: claims, Volumes: persistent, Classes: classes, CSINodes: localcache.NewMap[*storagev1.CSINode]()})
	if err != nil {
		return nil, nil, err
	}
	binder, err := volumebinding.New(volumebinding.Config{
		Nodes: localcache.NewMap[*corev1.Node](), Claims: claims, Volumes: persistent, Classes: classes,
		Update: func(context.Context, *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
			return nil, errors.New("no pod has a volume")
		},
	})
	if err != nil {
		return nil, nil, err
	}
	together, err := related.New(related.Config{
		ServicesByNamespace: localcache.Scan(localcache.NewMap[*corev1.Service](), func(*corev1.Service) []string { return nil }),
		ReplicaSets:         localcache.NewMap[*appsv1.ReplicaSet](),
	})
	if err != nil {
		return nil, nil, err
	}
	spread := schedule.SpreadDefaults{Selector: together.Selector}
	all := append([]schedule.Predicate{checks.Restrictions(), checks.Limits(), binder, checks.Zone()}, predicates.DefaultSpreading(spread)...)
	return all, priorities.DefaultSpreading(spread), nil
}

// ownCore is the decision core of planekit's scheduler.
type ownCore struct{ state *schedule.State }

func newOwnCore(context.Context) (core, error) {
	all, ranked, err := ownProfile()
	if err != nil {
		return nil, err
	}
	return ownCore{schedule.NewState(all, ranked, 1)}, nil
}

func (c ownCore) setNode(n *corev1.Node) error {
	c.state.SetNode(n)
	return nil
}

func (c ownCore) addPod(p *corev1.Pod) error {
	c.state.SetPod(schedule.NewPodInfo(p))
	return nil
}

func (c ownCore) removePod(p *corev1.Pod) error {
	c.state.RemovePod(p.Namespace + "/" + p.Name)
	return nil
}

func (c ownCore) place(p *corev1.Pod) (node string, err error) {
	info := schedule.NewPodInfo(p)
	node, unfit := c.state.Decide(info)
	if unfit != nil {
		best, ok := c.state.Preempt(info, unfit, nil)
		if !ok {
			return "", fmt.Errorf("%w: %w", errUnplaced, unfit)
		}
		c.state.Nominate(info, best.Node)
		for _, v := range best.Victims {
			c.state.Evict(v.Key, true)
			c.state.RemovePod(v.Key)
		}
		if node, unfit = c.state.Decide(info); unfit != nil {
			return "", unfit
		}
	}
	c.state.Assume(info, node)
	return node, nil
}

func (c ownCore) dryRun(p *corev1.Pod, measure func(search func() error)) error {
	info := schedule.NewPodInfo(p)
	_, unfit := c.state.Decide(info)
	if unfit == nil {
		return fmt.Errorf("pod %s fits a node", p.Name)
	}
	measure(func() error {
		if _, ok := c.state.Preempt(info, unfit, nil); !ok {
			return fmt.Errorf("%w: %w", errUnplaced, unfit)
		}
		return nil
	})
	return nil
}

func (ownCore) close() {}
