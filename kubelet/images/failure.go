package images

import "strings"

// pullErrors are the errors of CRI runtimes that have a reason of their own.
var pullErrors = map[string]string{
	"RegistryUnavailable":       "the registry is unavailable",
	"SignatureValidationFailed": "the signature validation failed",
}

// PullFailure returns the reason and the message for the status of a container whose image could not
// be pulled, from the runtime's error.
func PullFailure(image, said string) (reason, message string) {
	for reason, text := range pullErrors {
		// The CRI client names the call first.
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(said, "PullImage: "), reason); ok {
			return reason, "image pull failed for " + image + " because " + text + rest
		}
	}
	return "ErrImagePull", said
}
