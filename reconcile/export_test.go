package reconcile

import "context"

// Next makes the call of a Controller's worker between two reconciler calls.
func (q *Queue[K]) Next(ctx context.Context, key K, failed bool, o AddOptions) (K, error) {
	if failed {
		return q.next(ctx, key, again, o)
	}
	return q.next(ctx, key, succeeded, AddOptions{})
}
