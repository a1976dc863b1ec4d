// Package jsonpatch applies merge patches (RFC 7386) and JSON patches (RFC 6902) to JSON documents,
// at a cost that is limited by the size of both.
//
//	patched, err := jsonpatch.Merge(ctx, original, patch, depth)
//
// The result is that of gopkg.in/evanphx/json-patch.v4, which kube-apiserver uses, including its
// deviations from the RFCs. That library decodes a document level by level and reads the lower
// levels again at each level. This package scans every document once and records in a table where
// each object and array ends, so that the rest is a walk.
//
// No function reads or produces anything deeper than the given depth. All functions stop when their
// context ends. They neither change nor retain their arguments, but results may share memory with
// them.
package jsonpatch

import (
	"errors"

	"github.com/planekit/planekit/internal/jsonscan"
)

// These are the errors that callers distinguish. Any other error says that a well-formed patch does
// not fit the document.
var (
	// ErrMalformed marks a document or patch that is not JSON or has the wrong form.
	ErrMalformed = jsonscan.ErrMalformed
	// ErrTooDeep marks a document that is nested deeper than allowed.
	ErrTooDeep = jsonscan.ErrTooDeep
	// ErrTooMuchCopied marks a patch whose copy operations add too many bytes.
	ErrTooMuchCopied = errors.New("copy operations add too much")
)
