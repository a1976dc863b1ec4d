package aggregate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/planekit/planekit/kinds/apiregistration"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// managedLabel marks APIServices that a server makes of itself, when it starts.
const (
	managedLabel   = "kube-aggregator.kubernetes.io/automanaged"
	managedOnStart = "onstart"
)

// priorities holds the priorities that kube-apiserver gives its groups and their versions
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controlplane/apiserver/aggregator.go).
var priorities = map[schema.GroupVersion][2]int32{
	{Group: "", Version: "v1"}:                             {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "certificates.k8s.io", Version: "v1beta1"}:     {17300, 9},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "resource.k8s.io", Version: "v1"}:              {15900, 15},
}

// Local returns the APIServices of what a server has itself, as kube-apiserver
// makes them. Group versions that are none of Kubernetes's are left out, as is
// apiregistration.k8s.io.
func Local(groupVersions ...schema.GroupVersion) []*apiregistration.APIService {
	var out []*apiregistration.APIService
	seen := map[schema.GroupVersion]bool{}
	for _, gv := range groupVersions {
		priority, ok := priorities[gv]
		if !ok || seen[gv] {
			continue
		}
		seen[gv] = true
		out = append(out, &apiregistration.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managedLabel: managedOnStart}},
			Spec: apiregistration.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority[0], VersionPriority: priority[1],
			},
		})
	}
	return out
}

// A Registry is where APIServices are stored; a client.Resource is one.
type Registry interface {
	List(ctx context.Context, namespace string, o metav1.ListOptions) ([]*apiregistration.APIService, string, error)
	Create(context.Context, *apiregistration.APIService) (*apiregistration.APIService, error)
	Update(context.Context, *apiregistration.APIService) (*apiregistration.APIService, error)
	Delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error
}

// Register makes the stored APIServices of a server equal to local when the server starts. It
// creates missing ones. Of those with the label of local ones, it restores changed ones and deletes
// old ones. APIServices without the label belong to other programs and do not change.
func Register(ctx context.Context, registry Registry, local []*apiregistration.APIService) error {
	stored, _, err := registry.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	have := map[string]*apiregistration.APIService{}
	for _, s := range stored {
		have[s.Name] = s
	}
	var writes []func() error
	for _, want := range local {
		s := have[want.Name]
		delete(have, want.Name)
		switch {
		case s == nil:
			writes = append(writes, func() error {
				_, err := registry.Create(ctx, want)
				return err
			})
		case s.Labels[managedLabel] == managedOnStart && !sameSpec(&s.Spec, &want.Spec):
			changed := s.DeepCopy()
			changed.Spec = want.DeepCopy().Spec
			writes = append(writes, func() error {
				_, err := registry.Update(ctx, changed)
				return err
			})
		}
	}
	for _, s := range have {
		if s.Labels[managedLabel] == managedOnStart {
			writes = append(writes, func() error { return registry.Delete(ctx, "", s.Name, metav1.DeleteOptions{}) })
		}
	}
	return together(writes)
}

// together makes all writes at once, so that they share the disk's flushes.
func together(writes []func() error) error {
	errs := make([]error, len(writes))
	var all sync.WaitGroup
	for i, write := range writes {
		all.Go(func() {
			err := write()
			// Another server that starts as well may have been first.
			if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				errs[i] = fmt.Errorf("register APIServices: %w", err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func sameSpec(x, y *apiregistration.APIServiceSpec) bool {
	return x.Service == nil && y.Service == nil && x.GroupPriorityMinimum == y.GroupPriorityMinimum && x.VersionPriority == y.VersionPriority
}
