package apiserver

import "context"

// answeringKey is the key of the request that a context is for.
type answeringKey struct{}

// answering is the context of q for an Answer, which may have to say more than
// what it returns.
func (q *request) answering() context.Context {
	return context.WithValue(q.r.Context(), answeringKey{}, q)
}

// Annotate adds to the audit of a request that is being answered: ctx is that of
// an Answer, of a resource or a subresource. Where nobody audits, and with any
// other context, it does nothing. Neither key nor value may contain a credential.
func Annotate(ctx context.Context, key, value string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.annotate(key, value)
	}
}

// Warn tells the client something beside the answer, as a Warning header that
// kubectl shows. ctx is that of an Answer; with any other it does nothing.
func Warn(ctx context.Context, text string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.warn(text)
	}
}
