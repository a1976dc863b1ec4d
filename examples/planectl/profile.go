package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/volumebinding"
	"github.com/planekit/planekit/schedule/volumes"
	"github.com/planekit/planekit/schedule/workload"
)

// profile is the scheduler's default profile over what the cluster contains now.
type profile struct {
	predicates []schedule.Predicate
	priorities []schedule.Weighted
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
}

// reader reads lists, one after another.
type reader struct {
	*cli
	ctx    context.Context
	server *client.Client
	err    error
}

// required reads all objects of a resource.
func required[T client.Object](r *reader, resource client.Resource[T]) []T {
	if r.err != nil {
		return nil
	}
	list, _, err := resource.List(r.ctx, "", metav1.ListOptions{})
	r.err = err
	return list
}

// optional reads all objects of a resource. A user that may not read them gets a warning and none.
func optional[T client.Object](r *reader, resource client.Resource[T], name string) *localcache.Map[T] {
	list := required(r, resource)
	if apierrors.IsForbidden(r.err) {
		r.warn(fmt.Sprintf("you may not list %s, so that the explanation leaves them out", name))
		list, r.err = nil, nil
	}
	return localcache.NewMap(list...)
}

// readProfile reads what the default profile decides by.
func (c *cli) readProfile(ctx context.Context, server *client.Client) (*profile, error) {
	r := &reader{cli: c, ctx: ctx, server: server}
	p := &profile{nodes: required(r, typed.Nodes(server)), pods: required(r, typed.Pods(server))}
	namespaces := optional(r, typed.Namespaces(server), "namespaces")
	services := optional(r, typed.Services(server), "services")
	together, err := workload.New(workload.Config{
		ServicesByNamespace:    localcache.Scan(services, func(s *corev1.Service) []string { return []string{s.Namespace} }),
		ReplicationControllers: optional(r, typed.ReplicationControllers(server), "replicationcontrollers"),
		ReplicaSets:            optional(r, typed.ReplicaSets(server), "replicasets"),
	})
	if err != nil {
		return nil, err
	}
	claims := optional(r, typed.PersistentVolumeClaims(server), "persistentvolumeclaims")
	persistent := optional(r, typed.PersistentVolumes(server), "persistentvolumes")
	classes := optional(r, typed.StorageClasses(server), "storageclasses")
	attachments := optional(r, typed.VolumeAttachments(server), "volumeattachments")
	checks, err := volumes.New(volumes.Config{
		Claims: claims, Volumes: persistent, Classes: classes, CSINodes: optional(r, typed.CSINodes(server), "csinodes"), Attachments: attachments,
		AttachmentsByNode: localcache.Scan(attachments, func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} }),
	})
	if err != nil {
		return nil, err
	}
	binder, err := volumebinding.New(volumebinding.Config{
		Nodes: localcache.NewMap(p.nodes...), Claims: claims, Volumes: persistent, Classes: classes,
		Update: func(context.Context, *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
			return nil, errors.New("an explanation writes nothing")
		},
	})
	if err != nil || r.err != nil {
		return nil, errors.Join(err, r.err)
	}
	p.namespaces = slices.Collect(namespaces.All())
	spread := schedule.SpreadDefaults{Selector: together.Selector}
	p.predicates = append([]schedule.Predicate{checks.Restrictions(), checks.Limits(), binder, checks.Zone()}, predicates.DefaultSpreading(spread)...)
	p.priorities = priorities.DefaultSpreading(spread)
	return p, nil
}

// state returns the state of a scheduler for a decision about a pod: the cluster without that pod.
func (p *profile) state(about *corev1.Pod) *schedule.State {
	s := schedule.NewState(p.predicates, p.priorities, 1)
	for _, n := range p.nodes {
		s.SetNode(n)
	}
	for _, n := range p.namespaces {
		s.SetNamespace(n)
	}
	for _, pod := range p.pods {
		if pod.UID == about.UID {
			continue
		}
		info := schedule.NewPodInfo(pod)
		s.SetPod(info)
		if node := pod.Status.NominatedNodeName; node != "" && pod.Spec.NodeName == "" {
			s.Nominate(info, node)
		}
	}
	return s
}
