// Package strictjson decodes JSON that comes from strangers and leads to a charge. Whatever is not exactly what was asked
// for is an [Error] that says where and what to do, never a guess:
//
//   - Names are compared byte by byte. An unknown name, and one that stands twice, is an error.
//   - Text must be valid UTF-8, without lone surrogates: two keys that differ in bad bytes must not become one.
//   - Numbers are whole, in digits only (1.0 and 1e3 are not), within ±(2^53 − 1), so that all languages read the same.
//   - null is an error unless the type says otherwise. So is anything after the value.
//
// An Error never holds a value of the input: keys are not shown to anybody. It may quote an unknown name.
//
// What may stand in a struct is listed at [Decode]. Only reading is here; answers are written with encoding/json.
package strictjson
