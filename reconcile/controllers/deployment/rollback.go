package deployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/planekit/planekit/localcache"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// rollback answers the request to return to an earlier revision, which is an annotation of the
// Deployment.
type rollback struct {
	// to is the Deployment after the rollback, without the request.
	to *appsv1.Deployment
	// The Event object about the rollback.
	eventtype, reason, message string
}

// rollbackTo returns the revision that d must return to; nil if there is none. Zero means the
// previous one. A malformed number is ignored.
func rollbackTo(d *appsv1.Deployment) *int64 {
	revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	if err != nil {
		return nil
	}
	return &revision
}

// rollback plans to give the Deployment the template and the annotations of the ReplicaSet with the
// given revision.
func (r *rollout) rollback(revision int64) *rollback {
	d := r.d.DeepCopy()
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	warn := func(reason, message string) *rollback { return &rollback{d, corev1.EventTypeWarning, reason, message} }
	present, _ := strconv.ParseInt(r.revision(), 10, 64)
	if revision == 0 {
		if revision = r.previous(present); revision == 0 {
			return warn("DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
		}
	}
	at := slices.IndexFunc(r.old, func(rs *appsv1.ReplicaSet) bool { return setRevision(rs) == revision })
	switch {
	case revision == present, at >= 0 && sameTemplate(&r.old[at].Spec.Template, &d.Spec.Template):
		return warn("DeploymentRollbackTemplateUnchanged",
			fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name))
	case at < 0:
		return warn("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
	}
	rs := r.old[at]
	rs.Spec.Template.DeepCopyInto(&d.Spec.Template)
	d.Spec.Template.Labels = withoutHash(d.Spec.Template.Labels)
	// The annotations belong to the revision, as the template does. Unchanged, they would be copied
	// to the ReplicaSet.
	maps.DeleteFunc(d.Annotations, func(k, _ string) bool { return !notInherited[k] })
	for k, v := range rs.Annotations {
		if !notInherited[k] {
			d.Annotations[k] = v
		}
	}
	return &rollback{d, corev1.EventTypeNormal, "DeploymentRollback",
		fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, revision)}
}

// previous returns the highest revision below the present one; zero if there is none.
func (r *rollout) previous(present int64) (highest int64) {
	for _, rs := range r.old {
		if n := setRevision(rs); n < present {
			highest = max(highest, n)
		}
	}
	return highest
}

func (c *Controller) rollBack(ctx context.Context, d *appsv1.Deployment, r *rollback) error {
	updated, err := c.config.Writer.Update(ctx, r.to)
	if err != nil {
		return fmt.Errorf("roll back deployment %s: %w", localcache.KeyOf(d), err)
	}
	c.ledger.Add(localcache.KeyOf(d), c.config.Deployments, updated.ResourceVersion)
	c.config.Events.Event(d, r.eventtype, r.reason, r.message)
	return nil
}
