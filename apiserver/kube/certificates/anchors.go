package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxTrustBundle is the longest bundle, in bytes
// (https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/certificates/types.go).
const maxTrustBundle = 1 << 20

// omitted stands for the bundle in messages, which would repeat all of it.
const omitted = "<value omitted>"

// checkAnchors requires PEM blocks, each a different certificate of an authority. Text between the
// blocks is allowed.
func checkAnchors(p *field.Path, bundle string) field.ErrorList {
	if len(bundle) > maxTrustBundle {
		return field.ErrorList{field.TooLong(p, "", maxTrustBundle)}
	}
	var errs field.ErrorList
	invalid := func(message string) { errs = append(errs, field.Invalid(p, omitted, message)) }
	var order []string // of the anchors, each once
	entries := map[string][]int{}
	block, rest := pem.Decode([]byte(bundle))
	for i := 0; block != nil; i++ {
		if problem := anchorProblem(block); problem != "" {
			invalid(fmt.Sprintf("entry %d %s", i, problem))
		}
		anchor := string(block.Bytes)
		if entries[anchor] == nil {
			order = append(order, anchor)
		}
		entries[anchor] = append(entries[anchor], i)
		block, rest = pem.Decode(rest)
	}
	if len(errs) > 0 {
		return errs // without what may follow from them
	}
	if len(order) == 0 {
		invalid("at least one trust anchor must be provided")
	}
	for _, anchor := range order {
		if same := entries[anchor]; len(same) > 1 {
			invalid(fmt.Sprintf("duplicate trust anchor (indices %v)", same))
		}
	}
	return errs
}

// anchorProblem returns what keeps a block from being a trust anchor, or "".
func anchorProblem(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) != 0 {
		return "has PEM block headers"
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !certificate.IsCA:
		return "does not have the CA bit set"
	case !certificate.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
