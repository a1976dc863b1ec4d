// Package jsonpatch applies merge patches (RFC 7386) and JSON patches (RFC 6902)
// to JSON documents at a cost that is bounded by the size of both.
//
//	patched, err := jsonpatch.Merge(ctx, original, patch, depth)
//
// What comes out is what gopkg.in/evanphx/json-patch.v4 makes of the same, which
// kube-apiserver uses, its departures from the RFCs included. That library decodes a
// document level by level and reads what lies below again at each level. Here every
// document is scanned once: a table tells where each object and array ends, so that
// the rest is a walk.
//
// Nothing nested deeper than the given depth is read or made. All functions stop when
// their context ends. None of them changes or keeps its arguments beyond the call,
// but results may share memory with them.
package jsonpatch

import (
	"errors"

	"github.com/planekit/planekit/internal/jsonscan"
)

// Errors that callers tell apart. Any other error says that a well-formed patch does not
// fit the document.
var (
	// ErrMalformed marks a document or patch that is not JSON or not of the right form.
	ErrMalformed = jsonscan.ErrMalformed
	// ErrTooDeep marks a document that is nested deeper than allowed.
	ErrTooDeep = jsonscan.ErrTooDeep
	// ErrTooMuchCopied marks a patch whose copy operations add too many bytes.
	ErrTooMuchCopied = errors.New("copy operations add too much")
)
