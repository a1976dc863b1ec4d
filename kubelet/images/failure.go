package images

import "strings"

// pullErrors are the errors of CRI runtimes that have a reason of their own.
var pullErrors = map[string]string{
	"RegistryUnavailable":       "the registry is unavailable",
	"SignatureValidationFailed": "the signature validation failed",
}

// maxSaid bounds a runtime's error in the status of a container, in bytes. It has text of the registry in it,
// up to 32 KiB for each credential with containerd.
const maxSaid = 4 << 10

// PullFailure returns the reason and the message for the status of a container whose image could not
// be pulled, from the runtime's error.
func PullFailure(image, said string) (reason, message string) {
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "")
	}
	words := said
	if _, description, ok := strings.Cut(said, " desc = "); ok { // the form of gRPC's errors
		words = description
	}
	for reason, text := range pullErrors {
		if rest, ok := strings.CutPrefix(words, reason); ok {
			return reason, "image pull failed for " + image + " because " + text + rest
		}
	}
	return "ErrImagePull", said
}
