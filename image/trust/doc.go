// Package trust decides which images may run on a node, by the operator's policy file.
//
// The file names repositories by prefix. A rule accepts a repository, rejects it, or demands a signature by one of its
// keys. The longest prefix that fits decides, then the file's default:
//
//	default: reject
//	repositories:
//	- prefix: docker.io/library
//	  policy: accept
//	- prefix: registry.example.com/prod
//	  policy: signed
//	  keys: [/etc/criadapter/prod.pub]
//
// A Verifier decides twice. Before a pull it resolves the image's tag to a digest, verifies the digest's signatures,
// and returns the digest. The caller pulls this digest, even if the tag has moved by then. Before a container is
// created, it judges the image by its names at the engine, because the image may not have been pulled through CRI.
// Signatures that were verified at the pull are kept on disk, and are verified again by the current keys. For an image
// without kept signatures, the Verifier asks the registry, without credentials.
//
// Signatures are read as cosign stores them beside the image: in the tag sha256-….sig (simple signing), and as
// bundles among the digest's referrers (OCI distribution 1.1). A signature vouches for content, in any repository. So
// repositories with different signers need different keys.
//
// The policy file and its keys are read at each decision. A file that is missing or invalid refuses all images.
package trust
